package wakeup

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// address is an address of an interface.
type address struct {
	link   uint32 // the number of the interface
	prefix netip.Prefix
}

// change is what a message says about an address.
type change struct {
	address address
	// usable: it is there and others can be reached from it. Otherwise it has gone
	// or cannot be used (yet, or at all).
	usable bool
}

// addresses is the set of those that can be used. It is as small as the list of
// the machine's addresses.
type addresses map[address]struct{}

// apply follows the changes and reports whether any address is new. The kernel
// announces an address again whenever its lease is renewed: that is no change.
func (a addresses) apply(changes []change) bool {
	found := false
	for _, c := range changes {
		if !c.usable {
			delete(a, c.address)
			continue
		}
		if _, ok := a[c.address]; !ok {
			a[c.address] = struct{}{}
			found = true
		}
	}
	return found
}

// parseMessages returns what messages of rtnetlink(7) say about addresses by
// which others can be reached; all else is left out, and so is everything in
// data that is not well-formed.
func parseMessages(data []byte) []change {
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil
	}
	var changes []change
	for _, m := range messages {
		if c, ok := parseMessage(&m); ok {
			changes = append(changes, c)
		}
	}
	return changes
}

func parseMessage(m *syscall.NetlinkMessage) (change, bool) {
	added := m.Header.Type == unix.RTM_NEWADDR
	if !added && m.Header.Type != unix.RTM_DELADDR || len(m.Data) < unix.SizeofIfAddrmsg {
		return change{}, false
	}
	header := unix.IfAddrmsg{
		Family:    m.Data[0],
		Prefixlen: m.Data[1],
		Flags:     m.Data[2],
		Scope:     m.Data[3],
		Index:     binary.NativeEndian.Uint32(m.Data[4:]),
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return change{}, false
	}
	ip, flags := parseAttributes(attributes, uint32(header.Flags))
	prefix := netip.PrefixFrom(ip, int(header.Prefixlen))
	if !prefix.IsValid() || ip.Is4() != (header.Family == unix.AF_INET) || !reachesOthers(ip, header.Scope) {
		return change{}, false
	}
	const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	return change{
		address: address{link: header.Index, prefix: prefix},
		usable:  added && flags&unusable == 0,
	}, true
}

// parseAttributes returns the address, invalid if there is none, and its flags:
// the header has room for the first eight only.
func parseAttributes(attributes []syscall.NetlinkRouteAttr, flags uint32) (netip.Addr, uint32) {
	var own, either netip.Addr
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.IFA_LOCAL:
			own, _ = netip.AddrFromSlice(a.Value) // invalid if it is none
		case unix.IFA_ADDRESS:
			either, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_FLAGS:
			if len(a.Value) == 4 {
				flags = binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
	if own.IsValid() {
		return own, flags // the other is that of the peer, on a tunnel
	}
	return either, flags
}

// reachesOthers reports whether an address is good for more than the machine
// itself and the cable.
func reachesOthers(ip netip.Addr, scope uint8) bool {
	wide := scope == unix.RT_SCOPE_UNIVERSE || scope == unix.RT_SCOPE_SITE
	return wide && ip.IsGlobalUnicast()
}
