package smoke

import (
	"fmt"
	"net/netip"

	"github.com/quavon/quavon/runner/sandbox"
)

// Weakened sandboxes that have a way out. Those of them that are on a network have the
// world's.
var onNetwork = []string{"host-network", "nic", "runc-host-network"}

// privateAddrs are one of each kind of network that isn't the internet.
var privateAddrs = []string{
	"10.1.2.3", "172.16.5.4", "172.17.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "169.254.1.1", "10.99.0.1",
}

func networkEntries() []Entry {
	return append(directEntries(), doorEntries()...)
}

// directEntries are those without the door.
func directEntries() []Entry {
	return []Entry{
		reach{
			Entry: Entry{
				ID: "E2-metadata", Quick: true, Title: "no metadata service of a cloud can be reached",
				Weak: onNetwork,
			},
			targets: func(*World) []Target {
				return []Target{
					tcp("meta-aws", "169.254.169.254:80"), tcp("meta-ecs", "169.254.170.2:80"),
					tcp("meta-aws-v6", "[fd00:ec2::254]:80"), tcp("meta-alibaba", "100.100.100.200:80"),
					tcp("meta-tencent", "100.96.0.96:80"), tcp("meta-azure", "168.63.129.16:80"),
				}
			},
		}.entry(),
		reach{
			Entry: Entry{ID: "E3-host", Quick: true, Title: "no address of the host can be reached", Weak: onNetwork},
			here:  true, targets: hostTargets,
		}.entry(),
		reach{
			Entry: Entry{
				ID: "E3-door", Quick: true, Title: "a step without a network finds nobody at the door's place",
				Weak: []string{"open-door", "host-network", "runc-host-network"},
			},
			targets: func(*World) []Target { return []Target{{"door", "tcp", sandbox.Door, nobody}} },
		}.entry(),
		reach{
			Entry: Entry{ID: "E4-lan", Title: "no private network can be reached", Weak: onNetwork},
			targets: func(*World) []Target {
				var list []Target
				for i, a := range privateAddrs {
					list = append(list, tcp(fmt.Sprintf("lan-%d", i), a+":80"), udp(fmt.Sprintf("lan-udp-%d", i), a+":123"))
				}
				return list
			},
		}.entry(),
		reach{
			Entry: Entry{ID: "E5-internet", Title: "nothing of the internet can be reached directly", Weak: onNetwork},
			targets: func(*World) []Target {
				return []Target{
					tcp("net-https", "203.0.113.7:443"), tcp("net-http", "198.51.100.7:80"),
					tcp("net-dot", "192.0.2.53:853"), tcp("net-ssh", "203.0.113.7:22"),
					udp("net-quic", "203.0.113.7:443"), udp("net-ntp", "192.0.2.123:123"),
				}
			},
		}.entry(),
		{
			ID: "E5-icmp", Group: GroupNetwork, Title: "no echo request gets out, and there are no raw sockets",
			Control: "the same request is answered where there is a network", Inside: []string{"E5-icmp"},
			Weak: []string{"nic", "cap-net-raw", "caps", "runc-root", "runc-caps", "runc-kernel"},
			Judge: expects(map[Family][]Expect{GVisor: append(
				each("E5-icmp", []string{"ENETUNREACH"}, "ping", "ping6"), Expect{Probe: "E5-icmp", Sub: "raw", Held: []string{"EPERM"}})}),
		},
		reach{
			Entry: Entry{ID: "E6-ipv6", Title: "nothing can be reached by IPv6", Weak: onNetwork},
			targets: func(*World) []Target {
				return []Target{
					tcp("v6-global", "[2001:db8::7]:443"), tcp("v6-ula", "[fd12:3456::1]:80"), tcp("v6-nat64", "[64:ff9b::cb00:7107]:443"),
					tcp("v6-6to4", "[2002:cb00:7107::1]:443"), tcp("v6-mapped", "[::ffff:203.0.113.7]:443"),
					udp("v6-udp", "[2001:db8::7]:443"),
				}
			},
		}.entry(),
		reach{
			Entry: Entry{ID: "E7-dns", Title: "no name server can be asked", Weak: onNetwork},
			targets: func(*World) []Target {
				return []Target{
					{"dns-loopback", "udp", "127.0.0.1:53", nobody},
					{"dns-docker", "udp", "127.0.0.11:53", nobody},
					{"dns-loopback-tcp", "tcp", "127.0.0.1:53", nobody},
					udp("dns-gateway", "10.99.0.1:53"), udp("dns-public", "203.0.113.53:53"), tcp("dns-public-tcp", "203.0.113.53:53"),
					udp("dns-v6", "[2001:db8::53]:53"),
				}
			},
		}.entry(),
	}
}

// hostTargets are the listeners on the host's own addresses.
func hostTargets(w *World) []Target {
	list := []Target{{"host-abstract", "unix", w.abstract, nobody}}
	for i, a := range w.hosts {
		at := netip.AddrPortFrom(a, w.port).String()
		list = append(list, Target{fmt.Sprintf("host-%d", i), "tcp", at, heldAt(a)},
			Target{fmt.Sprintf("host-udp-%d", i), "udp", at, heldAt(a)})
	}
	return list
}
