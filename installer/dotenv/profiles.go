package dotenv

import (
	"slices"
	"strings"
)

// ProfilesKey is the setting with compose's profiles.
const ProfilesKey = "COMPOSE_PROFILES"

// Profiles are the names in a COMPOSE_PROFILES value as compose splits it: at commas
// only. A name with a space or a semicolon in it matches nothing.
func Profiles(value string) []string {
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// HasProfile says whether a profile is on; "*" is all of them.
func HasProfile(value, name string) bool {
	names := Profiles(value)
	return slices.Contains(names, name) || slices.Contains(names, "*")
}

// AddProfile is the value with a profile on. What is on already stays as it is written.
func AddProfile(value, name string) string {
	if HasProfile(value, name) {
		return value
	}
	return strings.Join(append(Profiles(value), name), ",")
}

// RemoveProfile is the value without a profile; "*" stays.
func RemoveProfile(value, name string) string {
	names := Profiles(value)
	if !slices.Contains(names, name) {
		return value
	}
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == name }), ",")
}
