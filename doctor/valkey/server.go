package valkey

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue/conn"
)

// Oldest versions with all commands that are used.
const (
	oldestValkey = 8
	oldestRedis  = 7
)

// Version asks the server what it is, which every user may.
func Version(ctx context.Context, where conn.Settings) doctor.Finding {
	c, err := conn.Open(where)
	if err != nil {
		return doctor.Failed(err.Error(), fault.Hint(err))
	}
	defer c.Close()
	hello, err := c.Do(ctx, c.B().Arbitrary("HELLO").Build()).ToMap()
	if err != nil {
		return doctor.Unknown(fmt.Errorf("what the server is: %w", err))
	}
	text := func(key string) string {
		m := hello[key]
		s, _ := m.ToString()
		return s
	}
	return judgeVersion(text("server"), text("version"), text("role"))
}

func judgeVersion(server, version, role string) doctor.Finding {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return doctor.Unknown(fmt.Errorf("the server says that it is %q %q", server, version))
	}
	what := server + " " + version
	switch {
	case server == "valkey" && n < oldestValkey, server != "valkey" && n < oldestRedis:
		return doctor.Failed(what+" lacks commands that the queue uses", "upgrade to Valkey 8, or Redis 7")
	case role == "replica" || role == "slave":
		return doctor.Failed(what+" is a replica: nothing can be written to it", "name the primary's address")
	}
	return doctor.Passed(what)
}

// Configured is what the server's own configuration says, as far as anybody may ask:
// by CONFIG, by INFO, or written down says what was written for it.
func Configured(ctx context.Context, where conn.Settings, written map[string]string) (map[string]string, error) {
	c, err := conn.Open(where)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	got, err := c.Do(ctx, c.B().ConfigGet().Parameter("maxmemory-policy", "appendonly", "appendfsync").Build()).AsStrMap()
	switch {
	case err == nil && len(got) > 0:
		return got, nil
	case err != nil && !refusedByRights(err):
		return nil, err
	}
	if info, err := c.Do(ctx, c.B().Info().Section("memory", "persistence").Build()).ToString(); err == nil {
		return fromInfo(info), nil
	}
	if len(written) > 0 {
		return written, nil
	}
	return nil, fault.New("the user may not ask for it, as it should be",
		"name the URL of one who may: --valkey-admin-url-file FILE, or the installation: --env-file DIR/.env")
}

func fromInfo(info string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(info) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case !ok:
		case k == "maxmemory_policy":
			out["maxmemory-policy"] = v
		case k == "aof_enabled":
			out["appendonly"] = map[string]string{"1": "yes", "0": "no"}[v]
		}
	}
	return out
}

// Eviction judges what the server does when its memory is full.
func Eviction(config map[string]string) doctor.Finding {
	policy, ok := config["maxmemory-policy"]
	const fix = "set `maxmemory-policy noeviction` in Valkey's configuration, and start it again"
	switch {
	case !ok:
		return doctor.Unknown(errors.New("the server doesn't say what it does when its memory is full"))
	case policy == "noeviction":
		return doctor.Passed("noeviction: a full Valkey refuses jobs, and loses none")
	case strings.HasPrefix(policy, "volatile-"):
		return doctor.Warned(policy+": every key of the queue has a time to live, so a full Valkey drops jobs without a word", fix)
	}
	return doctor.Failed(policy+": a full Valkey drops jobs without a word", fix)
}

// Durability judges what the server keeps over a crash.
func Durability(config map[string]string) doctor.Finding {
	on, ok := config["appendonly"]
	fsync := config["appendfsync"]
	const fix = "set `appendonly yes` and `appendfsync everysec` (or always) in Valkey's configuration"
	switch {
	case !ok:
		return doctor.Unknown(errors.New("the server doesn't say whether it has an append-only file"))
	case on != "yes":
		return doctor.Warned("there is no append-only file: a crash of Valkey loses the jobs that wait", fix)
	case fsync == "no":
		return doctor.Warned("appendfsync no: a power cut loses what the kernel had not written, often 30 seconds of jobs", fix)
	case fsync == "always":
		return doctor.Passed("append-only file, written before each answer")
	case fsync == "everysec":
		return doctor.Passed("append-only file, written every second: a power cut loses up to two seconds of jobs")
	}
	return doctor.Warned("append-only file; how often it is written could not be asked", fix)
}

// expiresSoon is when a certificate's end is worth a warning.
const expiresSoon = 14 * 24 * time.Hour

// Encryption judges whether passwords can be read on the way to the server.
func Encryption(ctx context.Context, where conn.Settings, now time.Time) doctor.Finding {
	if len(where.Addresses) == 1 && path.IsAbs(where.Addresses[0]) {
		return doctor.Passed("a socket of this host")
	}
	if where.TLS {
		return certificate(ctx, where, now)
	}
	var private, public []string
	for _, a := range where.Addresses {
		switch ips, err := resolve(ctx, a); {
		case err != nil:
			return doctor.Unknown(err)
		case slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.IsLoopback() && !isPrivate(ip) }):
			public = append(public, a)
		case slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.IsLoopback() }):
			private = append(private, a)
		}
	}
	const fix = "use valkeys:// with VALKEY_TLS_CA_FILE, or a tunnel such as WireGuard"
	switch {
	case len(public) > 0:
		return doctor.Failed("passwords travel in the clear over a public network to "+strings.Join(public, ", "), fix)
	case len(private) > 0:
		return doctor.Warned("passwords travel in the clear over a private network to "+strings.Join(private, ", "),
			fix+"; a tunnel can't be told from here: then --ignore this")
	}
	return doctor.Passed("an address of this host")
}

// isPrivate takes the address ranges of private networks and tunnels.
func isPrivate(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || ip.IsLinkLocalUnicast() || netip.MustParsePrefix("100.64.0.0/10").Contains(ip)
}

func resolve(ctx context.Context, address string) ([]netip.Addr, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return ips, err
}

// certificate connects as the queue does, which checks the server's certificate, and
// looks how long it holds.
func certificate(ctx context.Context, where conn.Settings, now time.Time) doctor.Finding {
	var until time.Time
	c, err := conn.Open(where) // a server that wants our certificate refuses late
	if err == nil {
		c.Close()
		err = conn.Handshake(ctx, where, func(s tls.ConnectionState) { until = s.PeerCertificates[0].NotAfter })
	}
	switch {
	case err != nil:
		return doctor.Failed("no encrypted connection: "+err.Error(),
			"name the CA's certificate by VALKEY_TLS_CA_FILE, and the name in the server's by VALKEY_TLS_SERVER_NAME")
	case until.Sub(now) < expiresSoon:
		return doctor.Warned("the server's certificate holds until "+until.UTC().Format(time.DateOnly), "renew it")
	}
	return doctor.Passed("encrypted, with a certificate that holds until " + until.UTC().Format(time.DateOnly))
}

// Written is what a compose file has its service valkey started with, nil without one:
// what holds where nobody may ask the server.
func Written(composeFile string) map[string]string {
	const most = 1 << 20
	data, err := bounded.ReadFile(composeFile, most)
	if err != nil {
		return nil
	}
	var file struct {
		Services struct {
			Valkey struct {
				Command []string `yaml:"command"`
			} `yaml:"valkey"`
		} `yaml:"services"`
	}
	if yaml.Unmarshal(data, &file) != nil {
		return nil
	}
	out := map[string]string{}
	args := file.Services.Valkey.Command
	for i, a := range args {
		if name, ok := strings.CutPrefix(a, "--"); ok && i+1 < len(args) {
			out[name] = args[i+1]
		}
	}
	if len(out) > 0 && out["appendonly"] == "yes" && out["appendfsync"] == "" {
		out["appendfsync"] = "everysec" // the server's own default
	}
	return out
}
