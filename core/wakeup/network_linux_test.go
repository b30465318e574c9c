package wakeup

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// spec is a message about an address, as the kernel would write it.
type spec struct {
	kind       uint16
	ip, peer   string
	bits       int
	link       uint32
	scope      uint8
	flags      uint8
	longFlags  uint32
	family     uint8 // 0: that of ip
	cutPayload int
}

func (s spec) message() []byte {
	var attributes []byte
	attribute := func(kind uint16, value []byte) {
		if len(value) == 0 {
			return
		}
		attributes = binary.NativeEndian.AppendUint16(attributes, uint16(4+len(value)))
		attributes = binary.NativeEndian.AppendUint16(attributes, kind)
		attributes = append(attributes, value...)
	}
	family := s.family
	if s.ip != "" {
		ip := netip.MustParseAddr(s.ip)
		if family == 0 {
			family = unix.AF_INET6
			if ip.Is4() {
				family = unix.AF_INET
			}
		}
		if s.peer != "" {
			attribute(unix.IFA_ADDRESS, netip.MustParseAddr(s.peer).AsSlice())
			attribute(unix.IFA_LOCAL, ip.AsSlice())
		} else {
			attribute(unix.IFA_ADDRESS, ip.AsSlice())
		}
	}
	if s.longFlags != 0 {
		attribute(unix.IFA_FLAGS, binary.NativeEndian.AppendUint32(nil, s.longFlags))
	}
	payload := append([]byte{family, byte(s.bits), s.flags, s.scope}, binary.NativeEndian.AppendUint32(nil, s.link)...)
	payload = append(payload, attributes...)
	payload = payload[:len(payload)-s.cutPayload]
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(payload)))
	m = binary.NativeEndian.AppendUint16(m, s.kind)
	m = append(m, make([]byte, 10)...) // flags, sequence, port
	return append(m, payload...)
}

func added(ip string, link uint32) spec {
	return spec{kind: unix.RTM_NEWADDR, ip: ip, bits: 24, link: link}
}

func removed(ip string, link uint32) spec {
	return spec{kind: unix.RTM_DELADDR, ip: ip, bits: 24, link: link}
}

func TestParseMessages(t *testing.T) {
	const none = "none"
	tests := map[string]struct {
		spec spec
		want string // address/bits, with "-" before it if it is not usable
	}{
		"IPv4":            {added("192.0.2.7", 2), "192.0.2.7/24"},
		"IPv4 gone":       {removed("192.0.2.7", 2), "-192.0.2.7/24"},
		"tunnel":          {spec{kind: unix.RTM_NEWADDR, ip: "10.8.0.2", peer: "10.8.0.1", bits: 32}, "10.8.0.2/32"},
		"IPv6":            {added("2001:db8::7", 2), "2001:db8::7/24"},
		"IPv6 private":    {added("fd00::7", 2), "fd00::7/24"},
		"site":            {spec{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, scope: unix.RT_SCOPE_SITE}, "2001:db8::7/64"},
		"tentative":       {spec{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, flags: unix.IFA_F_TENTATIVE}, "-2001:db8::7/64"},
		"tentative long":  {spec{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, longFlags: unix.IFA_F_TENTATIVE | 0x100}, "-2001:db8::7/64"},
		"long flags win":  {spec{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, flags: unix.IFA_F_TENTATIVE, longFlags: unix.IFA_F_PERMANENT}, "2001:db8::7/64"},
		"duplicate":       {spec{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, flags: unix.IFA_F_DADFAILED}, "-2001:db8::7/64"},
		"loopback":        {added("127.0.0.2", 1), none},
		"IPv6 loopback":   {added("::1", 1), none},
		"link-local":      {added("169.254.3.4", 2), none},
		"IPv6 link-local": {added("fe80::1", 2), none},
		"link scope":      {spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 24, scope: unix.RT_SCOPE_LINK}, none},
		"host scope":      {spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 24, scope: unix.RT_SCOPE_HOST}, none},
		"multicast":       {added("224.0.0.5", 2), none},
		"unspecified":     {added("0.0.0.0", 2), none},
		"no address":      {spec{kind: unix.RTM_NEWADDR, family: unix.AF_INET, bits: 24}, none},
		"too many bits":   {spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 33}, none},
		"wrong family":    {spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 24, family: unix.AF_INET6}, none},
		"a route":         {spec{kind: unix.RTM_NEWROUTE, ip: "192.0.2.7", bits: 24}, none},
		"short header":    {spec{kind: unix.RTM_NEWADDR, cutPayload: 1}, none},
		"short attribute": {spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 24, cutPayload: 4}, none},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := none
			for _, c := range parseMessages(test.spec.message()) {
				got = c.address.prefix.String()
				if !c.usable {
					got = "-" + got
				}
				if c.address.link != test.spec.link {
					t.Errorf("interface %d, want %d", c.address.link, test.spec.link)
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestAddressesThatAreNew(t *testing.T) {
	known := addresses{}
	steps := []struct {
		name  string
		specs []spec
		isNew bool
	}{
		{"the first", []spec{added("192.0.2.7", 2)}, true},
		{"its lease is renewed", []spec{added("192.0.2.7", 2)}, false},
		{"the same elsewhere", []spec{added("192.0.2.7", 3)}, true},
		{"gone", []spec{removed("192.0.2.7", 2)}, false},
		{"gone again", []spec{removed("192.0.2.7", 2)}, false},
		{"back", []spec{added("192.0.2.7", 2)}, true},
		{"gone and back at once", []spec{removed("192.0.2.7", 2), added("192.0.2.7", 2)}, true},
		{"one of two is new", []spec{added("192.0.2.7", 2), added("192.0.2.8", 2)}, true},
		{"not checked yet", []spec{{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64, flags: unix.IFA_F_TENTATIVE}}, false},
		{"checked", []spec{{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64}}, true},
		{"refreshed by a router", []spec{{kind: unix.RTM_NEWADDR, ip: "2001:db8::7", bits: 64}}, false},
	}
	for _, step := range steps {
		var data []byte
		for _, s := range step.specs {
			data = append(data, s.message()...)
		}
		if got := known.apply(parseMessages(data)); got != step.isNew {
			t.Errorf("%s: new %v, want %v", step.name, got, step.isNew)
		}
	}
}

func FuzzParseMessages(f *testing.F) {
	f.Add([]byte{})
	f.Add(added("192.0.2.7", 2).message())
	f.Add(append(removed("2001:db8::7", 2).message(), added("2001:db8::7", 2).message()...))
	f.Add(spec{kind: unix.RTM_NEWADDR, ip: "10.8.0.2", peer: "10.8.0.1", bits: 32, longFlags: 0x80}.message())
	f.Add(spec{kind: unix.RTM_NEWADDR, ip: "192.0.2.7", bits: 24, cutPayload: 3}.message())
	f.Fuzz(func(t *testing.T, data []byte) {
		changes := parseMessages(data)
		if len(changes) > len(data)/(unix.NLMSG_HDRLEN+unix.SizeofIfAddrmsg) {
			t.Fatalf("%d changes in %d bytes", len(changes), len(data))
		}
		for _, c := range changes {
			if !c.address.prefix.IsValid() || !c.address.prefix.Addr().IsGlobalUnicast() {
				t.Fatalf("took %v for an address", c.address)
			}
			known := addresses{}
			if known.apply([]change{c}) != c.usable || known.apply([]change{c}) {
				t.Fatalf("%v is not new exactly once", c)
			}
		}
	})
}

// script is a socket that gives one message, or one error, per read.
type script []any

func (s *script) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	next := (*s)[0]
	*s = (*s)[1:]
	if err, ok := next.(error); ok {
		return 0, &os.PathError{Op: "read", Path: "netlink", Err: err}
	}
	return copy(p, next.(spec).message()), nil
}

func TestOverflowCountsAsChangeAndReadsTheAddressesAnew(t *testing.T) {
	loads := []addresses{{}, {}}
	loads[1].apply(parseMessages(added("192.0.2.8", 2).message()))
	load := func() (addresses, error) {
		next := loads[0]
		loads = loads[1:]
		return next, nil
	}
	var found []int
	s := &script{
		added("192.0.2.7", 2),
		unix.ENOBUFS,
		added("192.0.2.8", 2), // known since the overflow
		added("192.0.2.7", 2), // not known any more
	}
	err := followAddresses(s, load, func() { found = append(found, len(*s)) })
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", err)
	}
	if diff := cmp.Diff([]int{3, 2, 0}, found); diff != "" {
		t.Errorf("found with so many messages left (-want +got):\n%s", diff)
	}
}

func TestAddressesThatCannotBeListed(t *testing.T) {
	broken := errors.New("broken")
	loaded := false
	load := func() (addresses, error) {
		if loaded {
			return nil, broken
		}
		loaded = true
		return addresses{}, nil
	}
	if err := followAddresses(&script{unix.ENOBUFS}, load, func() { t.Error("found one") }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
	if err := followAddresses(&script{}, load, func() { t.Error("found one") }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}

func TestNetworkSourceEndsWithItsContext(t *testing.T) {
	running(t, unmerged(followNetwork)) // fails if it does not
	time.Sleep(50 * time.Millisecond)
}

// namespaceVar is set in the process that has a network of its own.
const namespaceVar = "WAKEUP_TEST_NAMESPACE"

// TestKernelTellsOfAddresses changes addresses for real, in a network namespace.
func TestKernelTellsOfAddresses(t *testing.T) {
	if os.Getenv(namespaceVar) != "" {
		realAddresses(t)
		return
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("ip (iproute2) is not installed")
	}
	inNamespace := func(program string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), namespaceVar+"=1", "GORACE=atexit_sleep_ms=0")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		return cmd
	}
	if out, err := inNamespace(ip, "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("no network namespace of our own is permitted here: %v %s", err, out)
	}
	out, err := inNamespace(os.Args[0], "-test.run=^TestKernelTellsOfAddresses$", "-test.v").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
}

// ipCommand changes the namespace's network.
func ipCommand(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v %s", args, err, out)
	}
}

func realAddresses(t *testing.T) {
	ipCommand(t, "link set lo up")
	ipCommand(t, "addr add 192.0.2.1/24 dev lo")
	known, err := loadAddresses()
	if err != nil {
		t.Fatal(err)
	}
	want := addresses{{link: 1, prefix: netip.MustParsePrefix("192.0.2.1/24")}: {}}
	if diff := cmp.Diff(want, known, cmp.AllowUnexported(address{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Fatalf("addresses to begin with (-want +got):\n%s", diff)
	}

	heard := running(t, unmerged(followNetwork))
	w := New(Options{Environ: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler)})
	w.sources = []source{followNetwork}
	settled := running(t, w.Run)
	time.Sleep(200 * time.Millisecond) // until they listen

	ipCommand(t, "addr change 192.0.2.1/24 dev lo valid_lft 1000 preferred_lft 1000") // a lease is renewed
	ipCommand(t, "addr add 127.0.0.2/8 dev lo")
	ipCommand(t, "addr add fe80::1/64 dev lo")
	ipCommand(t, "addr add 198.51.100.9/24 dev lo scope host")
	ipCommand(t, "addr del 198.51.100.9/24 dev lo")
	silent(t, heard, 200*time.Millisecond)

	ipCommand(t, "addr add 192.0.2.2/24 dev lo")
	await(t, heard, NetworkBack)
	ipCommand(t, "addr add 2001:db8::1/64 dev lo")
	await(t, heard, NetworkBack)
	ipCommand(t, "addr del 192.0.2.2/24 dev lo")
	ipCommand(t, "addr add 192.0.2.2/24 dev lo")
	await(t, heard, NetworkBack)
	silent(t, heard, 200*time.Millisecond)

	await(t, settled, NetworkBack) // all of it was one burst
	silent(t, settled, 200*time.Millisecond)
}
