package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

// ours begins the names of tables and interfaces that are Quavon's own.
const ours = "quavon"

// nftChain is a chain in nft's JSON; those with a hook see every packet.
type nftChain struct {
	Family, Table, Name, Hook, Policy string
}

// nftRule is a rule in nft's JSON.
type nftRule struct {
	Family, Table, Chain string
	Expr                 []map[string]json.RawMessage
}

// does is what a rule does to every packet of an interface, or to all.
type does struct {
	// verdict is accept, drop, reject or jump, "" when it depends on something else.
	verdict, target string
	// in and out say that the packets are those from and to our interfaces only.
	in, out bool
}

func (r *nftRule) does() (d does) {
	for _, e := range r.Expr {
		for verb, raw := range e {
			switch verb {
			case "accept", "drop", "reject":
				d.verdict = verb
			case "jump":
				var jump struct{ Target string }
				_ = json.Unmarshal(raw, &jump) // another form jumps nowhere known
				d.verdict, d.target = verb, jump.Target
			case "counter", "log", "comment":
			case "match":
				switch ownInterface(raw) {
				case "iifname":
					d.in = true
				case "oifname":
					d.out = true
				default:
					return does{}
				}
			default:
				return does{}
			}
		}
	}
	return d
}

// ownInterface is the side, iifname or oifname, on which a match asks for exactly our
// interfaces; "" for any other match.
func ownInterface(raw json.RawMessage) string {
	var m struct {
		Op    string
		Left  struct{ Meta struct{ Key string } }
		Right any
	}
	if json.Unmarshal(raw, &m) != nil || m.Op != "==" || m.Right != ours+"*" {
		return ""
	}
	return m.Left.Meta.Key
}

// nftTables are the chains that see every packet, and the rules of all.
type nftTables struct {
	hooked []nftChain
	rules  map[[3]string][]does
}

func parseRuleset(ruleset string) (t nftTables, err error) {
	var list struct {
		Nftables []struct {
			Chain *nftChain
			Rule  *nftRule
		}
	}
	if err := json.Unmarshal([]byte(ruleset), &list); err != nil {
		return t, err
	}
	t.rules = map[[3]string][]does{}
	for _, e := range list.Nftables {
		switch {
		case e.Chain != nil && (e.Chain.Hook == "forward" || e.Chain.Hook == "input") && !strings.HasPrefix(e.Chain.Table, ours):
			t.hooked = append(t.hooked, *e.Chain)
		case e.Rule != nil:
			at := [3]string{e.Rule.Family, e.Rule.Table, e.Rule.Chain}
			t.rules[at] = append(t.rules[at], e.Rule.does())
		}
	}
	return t, nil
}

// refuses says whether a chain drops packets of our interfaces that it doesn't know: by
// policy, or by a rule without a condition. One that accepts all of ours before doesn't.
func (t nftTables) refuses(h nftChain) bool {
	in, out := false, h.Hook != "forward" // what is let through
	for _, d := range t.rules[[3]string{h.Family, h.Table, h.Name}] {
		switch all := !d.in && !d.out; {
		case d.verdict == "jump" && all:
			jumpIn, jumpOut := t.lets([3]string{h.Family, h.Table, d.target})
			in, out = in || jumpIn, out || jumpOut
		case d.verdict == "accept" && all:
			return false
		case d.verdict == "accept" && d.in != d.out:
			in, out = in || d.in, out || d.out
		case d.verdict == "drop" || d.verdict == "reject":
			return !in || !out
		}
	}
	return h.Policy == "drop" && (!in || !out)
}

// lets says whose packets, from or to our interfaces, a chain accepts before it does
// anything with those of others.
func (t nftTables) lets(at [3]string) (in, out bool) {
	for _, d := range t.rules[at] {
		switch {
		case d.verdict == "accept" && d.in != d.out:
			in, out = in || d.in, out || d.out
		case d.verdict != "":
			return in, out
		}
	}
	return in, out
}

// accept are the commands that let packets of our interfaces through a chain. Docker
// keeps DOCKER-USER in front of its own rules.
func (t nftTables) accept(h nftChain) []string {
	chain := h.Name
	if slices.ContainsFunc(t.rules[[3]string{h.Family, h.Table, chain}], func(d does) bool { return d.target == "DOCKER-USER" }) {
		chain = "DOCKER-USER"
	}
	sides := []string{"iifname"}
	if h.Hook == "forward" {
		sides = append(sides, "oifname")
	}
	var commands []string
	for _, side := range sides {
		commands = append(commands, fault.Words("nft", "insert", "rule", h.Family, h.Table, chain, side, `"`+ours+`*"`, "accept"))
	}
	return commands
}

func (c Config) otherFirewalls(ctx context.Context) doctor.Finding {
	out, err := c.Host.Run(ctx, "nft", "-j", "list", "ruleset")
	if err != nil {
		return doctor.Unknown(err)
	}
	tables, err := parseRuleset(out)
	if err != nil {
		return doctor.Unknown(fmt.Errorf("nft's answer: %w", err))
	}
	var found, fixes []string
	for _, h := range tables.hooked {
		if tables.refuses(h) {
			found = append(found,
				fmt.Sprintf("table %s %s, chain %s drops at %s what it doesn't accept", h.Family, h.Table, h.Name, h.Hook))
			fixes = append(fixes, tables.accept(h)...)
		}
	}
	fix := ""
	if len(fixes) > 0 {
		fix = "run `" + strings.Join(fixes, " && ") + "`, and say the same in that firewall's own configuration"
	}
	for _, file := range []string{"/etc/nftables.conf", "/etc/sysconfig/nftables.conf"} {
		flushes, err := c.flushes(file)
		if err != nil {
			return doctor.Unknown(err)
		}
		if flushes {
			found = append(found,
				file+" has \"flush ruleset\": a reload of nftables.service takes every table away, the sandboxes' too")
			fix = strings.TrimPrefix(fix+"; "+unflush(file), "; ")
		}
	}
	if len(found) > 0 {
		return doctor.Failed("another firewall stands in the way", fix, found...)
	}
	return doctor.Passed("no other base chain drops what is ours, and no configuration flushes")
}

func (c Config) flushes(file string) (bool, error) {
	data, err := c.Host.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(strings.TrimSpace(line), "flush ruleset") {
			return true, nil
		}
	}
	return false, nil
}

// unflush takes only the file's own tables away at a reload. A table is named before it
// is deleted, so that it may not be there.
func unflush(file string) string {
	const script = `/^[ \t]*flush ruleset/d; s/^[ \t]*table[ \t]\+\([^{]*[^{ \t]\)[ \t]*{.*/table \1\ndelete table \1\n&/`
	return "run " + fault.Command("sed", "-i", script, file)
}
