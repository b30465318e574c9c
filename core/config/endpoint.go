package config

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// readHTTP reads the section of the HTTP endpoint. Whether its address may be one that
// others can reach is known only when all files are read; see [guardHTTP].
func (d *document) readHTTP(n node, c *Config) {
	for _, m := range d.section(n) {
		switch m.key {
		case "listen":
			before := c.HTTPListen
			read(m.node, asAddress, &c.HTTPListen, d.warnHeld)
			if c.HTTPListen != before {
				d.listen = &m.node
			}
		case "allowRemote":
			read(m.node, asBool, &c.HTTPAllowRemote, d.warnHeld)
		default:
			m.unknown()
		}
	}
}

// guardHTTP takes back an address that other machines can reach, unless the user said
// that they may: the endpoint runs the user's tools.
func guardHTTP(c *Config, docs []*document) {
	if c.HTTPAllowRemote || c.HTTPListen == "" || loopback(c.HTTPListen) {
		return
	}
	c.HTTPListen = ""
	for _, d := range slices.Backward(docs) {
		if d.listen != nil {
			d.warn(d.listen.issue("other machines can reach this address; use 127.0.0.1, [::1] or localhost, " +
				"or set \"allowRemote\": true beside it; there is no HTTP endpoint now"))
			return
		}
	}
}

// loopback reports whether only this machine reaches the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// asAddress reads host:port with an IP address or localhost as host; none stands for
// every address of this machine.
func asAddress(n node) (string, *Issue) {
	address, bad := asString(n)
	if bad != nil || address == "" {
		return address, bad
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err == nil && host != "" && host != "localhost" {
		_, err = netip.ParseAddr(host)
	}
	if err != nil {
		out := n.issue("must be an IP address and a port, for example 127.0.0.1:7877")
		return "", &out
	}
	return address, nil
}
