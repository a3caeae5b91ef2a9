// Package fix says what a patch mends and what it breaks: it makes the steps of one
// job out of a policy's setup, test and lint commands, and compares how they fared
// without the patch and with it. It runs nothing itself.
package fix

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// MaxPolicy bounds a policy, in bytes.
const MaxPolicy = 256 << 10

// maxCommands bounds the commands of one kind.
const maxCommands = 64

// Policy is how a repository's changes are checked. Whoever runs it writes it; the
// change that is checked has no say in it.
type Policy struct {
	// Image is the image to run in; "" is the host's toolchain.
	Image string `yaml:"image"`
	// Allow lists what setup may reach: rules as runner/egress/policy reads them.
	Allow []string `yaml:"allow"`
	// Setup commands have to succeed. Only they may have a network.
	Setup []Command `yaml:"setup"`
	// Test and Lint commands are compared.
	Test []Command `yaml:"test"`
	Lint []Command `yaml:"lint"`
	// Env is every command's.
	Env map[string]string `yaml:"env"`
}

// Command is a line for /bin/sh, written as a string, or with a name and a timeout.
type Command struct {
	Name    string        `yaml:"name"`
	Run     string        `yaml:"run"`
	Timeout time.Duration `yaml:"timeout"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Command) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&c.Run)
	}
	type fields Command
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		switch k := n.Content[i].Value; k {
		case "name", "run", "timeout":
		default:
			return fmt.Errorf("line %d: a command has no field %.40q", n.Line, k)
		}
	}
	return n.Decode((*fields)(c))
}

// ParsePolicy reads a policy. Fields that it doesn't know are refused.
func ParsePolicy(text []byte) (Policy, error) {
	var p Policy
	err := errors.New("it is too long")
	if len(text) <= MaxPolicy {
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		err = d.Decode(&p)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return Policy{}, fault.Wrap(err, "read the policy", "docs/scan.md shows its form").WithCode(string(job.ReasonRejected))
	}
	return p, nil
}

func (p *Policy) check() error {
	if len(p.Test)+len(p.Lint) == 0 {
		return errors.New("it has neither test nor lint commands")
	}
	for _, list := range [][]Command{p.Setup, p.Test, p.Lint} {
		if len(list) > maxCommands {
			return fmt.Errorf("it has more than %d commands of a kind", maxCommands)
		}
		seen := map[string]bool{}
		for i := range list {
			c := &list[i]
			if c.Name == "" {
				c.Name = c.Run
			}
			switch {
			case c.Run == "" || c.Timeout < 0:
				return errors.New("a command is empty, or its timeout negative")
			case seen[c.Name]:
				return fmt.Errorf("two commands have the name %.100q", c.Name)
			}
			seen[c.Name] = true
		}
	}
	return nil
}
