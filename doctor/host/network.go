package host

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
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

// sandboxRanges are what backends with interfaces take.
var sandboxRanges = []netip.Prefix{netip.MustParsePrefix("10.201.0.0/16"), netip.MustParsePrefix("172.16.0.0/30")}

func (c Config) ranges(context.Context) doctor.Finding {
	data, err := c.Host.ReadFile("/proc/net/route")
	if err != nil {
		return doctor.Unknown(err)
	}
	var taken, drop []string
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
				drop = append(drop, fault.Words("ip", "route", "del", prefix.String(), "dev", f[0]))
			}
		}
	}
	if len(taken) > 0 {
		return doctor.Failed("addresses of the sandboxes are in use",
			"give that network other addresses, or run `"+strings.Join(slices.Compact(drop), " && ")+"`", taken...)
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
