package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// thousand are the tools of twenty servers, each of about 1 KiB.
func thousand() []Source {
	var sources []Source
	for s := range 20 {
		name := fmt.Sprintf("server-%d", s)
		var tools []string
		for n := range 50 {
			tools = append(tools, fmt.Sprintf(`{"name":"tool_number_%d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","description":%q}},"required":["a"]}}`,
				n, strings.Repeat("Does something. ", 30), strings.Repeat("A number. ", 20)))
		}
		sources = append(sources, raw(name, tools...))
	}
	return sources
}

func BenchmarkNew1000(b *testing.B) {
	sources := thousand()
	b.ReportAllocs()
	for b.Loop() {
		New(sources, Filter{})
	}
}

func BenchmarkView1000(b *testing.B) {
	for name, filter := range map[string]Filter{
		"all":      {},
		"filtered": {Expose: []string{"server-1*", "*_number_7", "*_4*_*"}, Hide: []string{"*delete*", "server-3__*", "server-1__tool_number_7"}},
	} {
		c := New(thousand(), filter)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := c.view(forUnknown); len(v.Entries) == 0 {
					b.Fatal("no tools")
				}
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	view := New(thousand(), Filter{}).View(forUnknown)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := view.Tool("server-7__tool_number_7"); !ok {
			b.Fatal("not found")
		}
	}
}
