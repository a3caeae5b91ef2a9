package policy

import (
	"fmt"
	"net/netip"
)

// Addresses decides about the addresses that names resolve to.
type Addresses struct {
	// Private are networks that are reachable although they are private: parts of
	// privateRanges only, see ParsePrivate.
	Private []netip.Prefix
}

// Check refuses an address that isn't a public one of one host. It takes the
// address that is about to be dialled, never one that was looked up before.
func (a Addresses) Check(addr netip.Addr) error {
	if addr.Zone() != "" {
		return forbidden(addr, "link-local")
	}
	addr = addr.Unmap()
	for _, r := range metadata {
		if r.Contains(addr) {
			return forbidden(addr, "metadata or link-local")
		}
	}
	for _, p := range a.Private {
		if p.Contains(addr) {
			return nil
		}
	}
	for _, r := range reserved {
		if r.prefix.Contains(addr) {
			return forbidden(addr, r.what)
		}
	}
	if !addr.Is4() && !globalUnicast.Contains(addr) {
		return forbidden(addr, "reserved")
	}
	return nil
}

func forbidden(addr netip.Addr, what string) error {
	return &AddressError{addr, what}
}

// AddressError is an address that may not be reached.
type AddressError struct {
	Addr netip.Addr
	// What is the range it is in.
	What string
}

func (e *AddressError) Error() string { return fmt.Sprintf("the address %s is %s", e.Addr, e.What) }

// ParsePrivate reads a network for Addresses.Private. Loopback, link-local and
// metadata addresses are no networks of others, so no setting opens them.
func ParsePrivate(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, err
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s has bits behind its length: write %s", s, p.Masked())
	}
	for _, r := range privateRanges {
		if r.Bits() <= p.Bits() && r.Contains(p.Addr()) {
			return p, nil
		}
	}
	return p, fmt.Errorf("%s is not within a private range (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7)", s)
}

// privateRanges is what an operator may open a part of.
var privateRanges = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")

// metadata are where clouds keep credentials, and all of link-local with them.
var metadata = prefixes(
	"169.254.0.0/16", "fe80::/10",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
	"fd00:ec2::/32", "fd20:ce::/32", "fd00:42::42/128",
)

// globalUnicast is the only part of IPv6 that is given out.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// reserved follows the special-purpose registries of IANA. IPv6 outside of
// globalUnicast needs no entry.
var reserved = ranges(
	"0.0.0.0/8", "this network",
	"10.0.0.0/8", "private",
	"100.64.0.0/10", "carrier-grade NAT",
	"127.0.0.0/8", "loopback",
	"172.16.0.0/12", "private",
	"192.0.0.0/24", "reserved",
	"192.0.2.0/24", "documentation",
	"192.31.196.0/24", "reserved",
	"192.52.193.0/24", "reserved",
	"192.88.99.0/24", "6to4",
	"192.168.0.0/16", "private",
	"192.175.48.0/24", "reserved",
	"198.18.0.0/15", "benchmarking",
	"198.51.100.0/24", "documentation",
	"203.0.113.0/24", "documentation",
	"224.0.0.0/4", "multicast",
	"240.0.0.0/4", "reserved",
	"2001::/23", "Teredo or reserved",
	"2001:db8::/32", "documentation",
	"2002::/16", "6to4",
	"2620:4f:8000::/48", "reserved",
	"3fff::/20", "documentation",
	"::1/128", "loopback",
	"64:ff9b::/96", "NAT64",
	"64:ff9b:1::/48", "NAT64",
	"fc00::/7", "private",
	"fec0::/10", "site-local",
	"ff00::/8", "multicast",
)

type namedRange struct {
	prefix netip.Prefix
	what   string
}

func ranges(pairs ...string) []namedRange {
	var list []namedRange
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, namedRange{netip.MustParsePrefix(pairs[i]), pairs[i+1]})
	}
	return list
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
