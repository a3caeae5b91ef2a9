package host

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
)

// Networks matter to backends that give sandboxes an interface; runsc's have none,
// so nothing here is more than a warning.
func (c Config) network() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD930", Name: "nftables", Title: "the kernel has what the firewall's rules need", Group: groupNetwork,
			Needs: []string{"QD901"}, Severity: doctor.Warning,
			DefaultFix: "install nftables, and use a kernel with nf_tables, its sets, counters and NAT", Run: c.nftFeatures,
		},
		{
			Code: "QD931", Name: "firewalls", Title: "no other firewall drops or flushes what is to be let through", Group: groupNetwork,
			Needs: []string{"QD930"}, Severity: doctor.Warning,
			DefaultFix: "see docs/doctor.md: allow sandboxes in that firewall too; only its drop is final", Run: c.otherFirewalls,
		},
		{
			Code: "QD932", Name: "iptables-legacy", Title: "all rules of the firewall are in one place", Group: groupNetwork,
			Needs: []string{"QD901"}, Severity: doctor.Warning,
			DefaultFix: "move the rules to nftables: `iptables-legacy-save` shows them", Run: c.legacyRules,
		},
		{
			Code: "QD933", Name: "ranges", Title: "the sandboxes' address ranges are free", Group: groupNetwork,
			Needs: []string{"QD901"}, Severity: doctor.Warning,
			DefaultFix: "renumber what is listed, or remove its route", Run: c.ranges,
		},
	}
}

// nftProbe uses every feature of the rules, in a network namespace of its own.
const nftProbe = "add table inet probe; " +
	"add set inet probe allowed { type ipv4_addr . inet_service; flags interval; }; " +
	"add chain inet probe entry { type filter hook input priority 0; policy drop; }; " +
	"add rule inet probe entry ct state established,related counter accept; " +
	"add chain inet probe through { type filter hook forward priority 0; policy drop; }; " +
	"add rule inet probe through ip daddr . tcp dport @allowed counter accept; " +
	"add chain inet probe nat { type nat hook postrouting priority 100; policy accept; }; " +
	"add rule inet probe nat masquerade"

func (c Config) nftFeatures(ctx context.Context) doctor.Finding {
	user, err := c.Host.User()
	if err != nil {
		return doctor.Unknown(err)
	}
	if user.UID != 0 {
		return doctor.Skipped("rules can be tried by root only")
	}
	_, err = c.Host.Run(ctx, "unshare", "--net", "nft", nftProbe)
	switch {
	case ctx.Err() != nil:
		return doctor.Unknown(context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist), err != nil && strings.Contains(err.Error(), "failed to execute nft"):
		return doctor.Failed("there is no nft", "run `apt install nftables`, or what your distribution has")
	case err != nil && strings.Contains(err.Error(), "syntax error"):
		return doctor.Unknown(fmt.Errorf("this nft reads other rules than the doctor writes: %w", err))
	case err != nil && strings.Contains(err.Error(), "unshare failed"):
		return doctor.Unknown(fmt.Errorf("no network namespace to try rules in: %w", err))
	case err != nil:
		return doctor.Failed("the kernel refuses rules that the firewall needs: sets, connection state, counters or NAT", "", err.Error())
	}
	return doctor.Passed("sets, connection state, counters and NAT work")
}

// nftChain is a chain in nft's JSON; those with a hook see every packet.
type nftChain struct {
	Family, Table, Name, Hook, Policy string
}

// nftRule is a rule in nft's JSON.
type nftRule struct {
	Family, Table, Chain string
	Expr                 []map[string]json.RawMessage
}

// refusesAll says whether a rule drops or rejects whatever comes to it.
func (r *nftRule) refusesAll() bool {
	refuses := false
	for _, e := range r.Expr {
		for verb := range e {
			switch verb {
			case "drop", "reject":
				refuses = true
			case "counter", "log":
			default:
				return false // a match, or a jump elsewhere
			}
		}
	}
	return refuses
}

// ours begins the names of tables that are Quavon's own.
const ours = "quavon"

func (c Config) otherFirewalls(ctx context.Context) doctor.Finding {
	out, err := c.Host.Run(ctx, "nft", "-j", "list", "ruleset")
	if err != nil {
		return doctor.Unknown(err)
	}
	found, err := refusals(out)
	if err != nil {
		return doctor.Unknown(fmt.Errorf("nft's answer: %w", err))
	}
	for _, file := range []string{"/etc/nftables.conf", "/etc/sysconfig/nftables.conf"} {
		data, err := c.Host.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return doctor.Unknown(err)
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(strings.TrimSpace(line), "flush ruleset") {
				found = append(found,
					file+" has \"flush ruleset\": a reload of nftables.service takes every table away, the sandboxes' too")
			}
		}
	}
	if len(found) > 0 {
		return doctor.Failed("another firewall stands in the way", "", found...)
	}
	return doctor.Passed("no other base chain drops, and no configuration flushes")
}

// refusals are the chains of others that refuse at forward or input what they don't
// accept: by policy, or by a rule without a condition.
func refusals(ruleset string) ([]string, error) {
	var list struct {
		Nftables []struct {
			Chain *nftChain
			Rule  *nftRule
		}
	}
	if err := json.Unmarshal([]byte(ruleset), &list); err != nil {
		return nil, err
	}
	hooks := map[[3]string]string{}
	var found []string
	add := func(family, table, chain, hook string) {
		s := fmt.Sprintf("table %s %s, chain %s drops at %s what it doesn't accept", family, table, chain, hook)
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	for _, e := range list.Nftables {
		switch {
		case e.Chain != nil && (e.Chain.Hook == "forward" || e.Chain.Hook == "input") && !strings.HasPrefix(e.Chain.Table, ours):
			h := e.Chain
			hooks[[3]string{h.Family, h.Table, h.Name}] = h.Hook
			if h.Policy == "drop" {
				add(h.Family, h.Table, h.Name, h.Hook)
			}
		case e.Rule != nil && e.Rule.refusesAll():
			// nft lists a table's chains before its rules.
			if hook := hooks[[3]string{e.Rule.Family, e.Rule.Table, e.Rule.Chain}]; hook != "" {
				add(e.Rule.Family, e.Rule.Table, e.Rule.Chain, hook)
			}
		}
	}
	return found, nil
}

// legacyRules looks where the old interface lists its tables; rules of the new one
// aren't seen there, nor the other way round.
func (c Config) legacyRules(context.Context) doctor.Finding {
	var tables []string
	for _, file := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		data, err := c.Host.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return doctor.Unknown(err)
		}
		if names := strings.Fields(string(data)); len(names) > 0 {
			tables = append(tables, file+": "+strings.Join(names, ", "))
		}
	}
	if len(tables) > 0 {
		return doctor.Failed("iptables-legacy has tables, which nft does not show", "", tables...)
	}
	return doctor.Passed("iptables-legacy has no tables")
}

// sandboxRanges are what backends with interfaces take.
var sandboxRanges = []netip.Prefix{netip.MustParsePrefix("10.201.0.0/16"), netip.MustParsePrefix("172.16.0.0/30")}

func (c Config) ranges(context.Context) doctor.Finding {
	data, err := c.Host.ReadFile("/proc/net/route")
	if err != nil {
		return doctor.Unknown(err)
	}
	var taken []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] == "Iface" {
			continue
		}
		prefix, err := routePrefix(f[1], f[7])
		if err != nil {
			return doctor.Unknown(fmt.Errorf("/proc/net/route: %w", err))
		}
		for _, r := range sandboxRanges {
			if prefix.Bits() > 0 && prefix.Overlaps(r) && !strings.HasPrefix(f[0], ours) {
				taken = append(taken, fmt.Sprintf("%s is routed to %s, and overlaps %s", prefix, f[0], r))
			}
		}
	}
	if len(taken) > 0 {
		return doctor.Failed("addresses of the sandboxes are in use", "", taken...)
	}
	return doctor.Passed("no route overlaps 10.201.0.0/16 or 172.16.0.0/30")
}

// routePrefix reads the kernel's little-endian hexadecimal address and mask.
func routePrefix(addr, mask string) (netip.Prefix, error) {
	a, err := hex.DecodeString(addr)
	if err != nil || len(a) != 4 {
		return netip.Prefix{}, fmt.Errorf("%q is no address", addr)
	}
	m, err := hex.DecodeString(mask)
	if err != nil || len(m) != 4 {
		return netip.Prefix{}, fmt.Errorf("%q is no mask", mask)
	}
	length := bits.OnesCount32(binary.LittleEndian.Uint32(m))
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a[3], a[2], a[1], a[0]}), length).Masked(), nil
}
