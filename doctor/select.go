package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

var codeForm = regexp.MustCompile(`^QD9\d\d$`)

// Validate finds what is wrong with a registry itself: codes that aren't ones or
// appear twice, parts that are missing, needs that don't exist or go in circles.
func Validate(checks []*Check) error {
	byCode := map[string]*Check{}
	for _, c := range checks {
		switch {
		case !codeForm.MatchString(c.Code):
			return fmt.Errorf("%q is no code", c.Code)
		case byCode[c.Code] != nil:
			return fmt.Errorf("%s appears twice", c.Code)
		case c.Name == "" || c.Title == "" || c.Group == "" || c.DefaultFix == "" || c.Run == nil:
			return fmt.Errorf("%s lacks a name, title, group, fix or run", c.Code)
		case c.Severity != Failure && c.Severity != Warning:
			return fmt.Errorf("%s has the severity %q", c.Code, c.Severity)
		}
		byCode[c.Code] = c
	}
	for _, c := range checks {
		if err := circle(c, byCode, nil); err != nil {
			return err
		}
	}
	return nil
}

func circle(c *Check, byCode map[string]*Check, path []string) error {
	if slices.Contains(path, c.Code) {
		return fmt.Errorf("%s need each other", strings.Join(append(path, c.Code), " → "))
	}
	for _, need := range c.Needs {
		n := byCode[need]
		if n == nil {
			return fmt.Errorf("%s needs %s, which isn't there", c.Code, need)
		}
		if err := circle(n, byCode, append(path, c.Code)); err != nil {
			return err
		}
	}
	return nil
}

// Select returns the checks named by code or name and all that those need, every
// check when none is named. The order of checks is kept.
func Select(checks []*Check, only []string) ([]*Check, error) {
	if len(only) == 0 {
		return checks, nil
	}
	want := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		c, err := Find(checks, name)
		if err != nil || want[c.Code] {
			return err
		}
		want[c.Code] = true
		for _, need := range c.Needs {
			if err := add(need); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range only {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(checks), func(c *Check) bool { return !want[c.Code] }), nil
}

// Ignore returns the codes of the checks named. One that can't be ignored is an
// error.
func Ignore(checks []*Check, names []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range names {
		c, err := Find(checks, name)
		if err != nil {
			return nil, err
		}
		if c.Essential {
			return nil, fault.New(c.Code+" can't be ignored: whether the sandbox holds is what the doctor is for",
				"fix what it shows; `quavon doctor --explain "+c.Code+"` helps")
		}
		out[c.Code] = true
	}
	return out, nil
}

// Find returns a check by its code or name.
func Find(checks []*Check, name string) (*Check, error) {
	for _, c := range checks {
		if strings.EqualFold(c.Code, name) || c.Name == name {
			return c, nil
		}
	}
	return nil, fault.New(fmt.Sprintf("%q is no check", name), "`quavon doctor --list` shows all")
}
