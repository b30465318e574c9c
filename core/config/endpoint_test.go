package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// C136: without the user's word nobody but this machine reaches the endpoint.
func TestC136_RemoteAddressNeedsAllowRemote(t *testing.T) {
	for _, tc := range []struct{ section, listen, warning string }{
		{`{"listen":"0.0.0.0:7877","allowRemote":true}`, "0.0.0.0:7877", ""},
		{`{"allowRemote":true,"listen":":7877"}`, ":7877", ""},
		{`{"allowRemote":true,"listen":"[::]:7877"}`, "[::]:7877", ""},
		{`{"allowRemote":false,"listen":"[::ffff:127.0.0.1]:1"}`, "[::ffff:127.0.0.1]:1", ""},
		{`{"listen":"0.0.0.0:7877"}`, "", "allowRemote"},
		{`{"listen":":7877"}`, "", "allowRemote"},
		{`{"listen":"192.168.1.4:7877","allowRemote":false}`, "", "allowRemote"},
		{`{"listen":"192.168.1.4:7877","allowRemote":"yes"}`, "", "allowRemote"},
		{`{"listen":"example.com:80","allowRemote":true}`, "", "an IP address and a port"},
		{`{"listen":"127.0.0.1"}`, "", "an IP address and a port"},
		{`{"listen":"127.0.0.1:99999"}`, "", "an IP address and a port"},
		{`{"listen":7877}`, "", "string"},
	} {
		c := mustParse(t, `{"http":`+tc.section+`}`)
		if c.HTTPListen != tc.listen {
			t.Errorf("%s: listen %q, want %q", tc.section, c.HTTPListen, tc.listen)
		}
		if tc.warning == "" {
			if len(c.Warnings) != 0 {
				t.Errorf("%s: warnings %v", tc.section, c.Warnings)
			}
			continue
		}
		found := false
		for _, w := range c.Warnings {
			found = found || w.Path == "http.listen" && w.Line == 1 && w.Column > 8 && strings.Contains(w.Message, tc.warning)
		}
		if !found {
			t.Errorf("%s: warnings %v, want one on http.listen with %q", tc.section, c.Warnings, tc.warning)
		}
	}
}

// The last word on each key counts, whichever file it is in.
func TestAllowRemoteOfTheBaseFileCanBeTakenBack(t *testing.T) {
	dir := t.TempDir()
	base, main := filepath.Join(dir, "base.json"), filepath.Join(dir, "main.json")
	write(t, base, "{\"http\":\n {\"listen\":\"0.0.0.0:7877\",\"allowRemote\":true}}")
	o := options()
	o.BasePath = base
	for text, listen := range map[string]string{
		`{}`:                               "0.0.0.0:7877",
		`{"http":{"allowRemote":false}}`:   "",
		`{"http":{"listen":"10.1.2.3:1"}}`: "10.1.2.3:1",
	} {
		write(t, main, text)
		c, err := Load(main, o)
		if err != nil || c.HTTPListen != listen {
			t.Errorf("%s: listen %q, %v", text, c.HTTPListen, err)
		}
		if listen == "" && (len(c.Warnings) != 1 || c.Warnings[0].File != base || c.Warnings[0].Line != 2) {
			t.Errorf("%s: warnings %v, want one where the address stands", text, c.Warnings)
		}
	}
}
