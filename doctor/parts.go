package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Part is what a check found of one of its subjects, as one runner of several.
type Part struct {
	Subject string
	Finding
}

// badness orders states: the worst of several counts.
var badness = map[State]int{Fail: 4, Error: 3, Warn: 2, Pass: 1, Skip: 0}

// Together makes one finding of those of several subjects; noun is what one of them is
// called. The worst state is the whole's, and the first of that state has its fix. A
// subject that was skipped doesn't count beside one that wasn't.
func Together(noun string, parts []Part) Finding {
	switch len(parts) {
	case 0:
		return Unknown(errors.New("there is no " + noun + " to look at"))
	case 1:
		f := parts[0].Finding
		f.Message = parts[0].Subject + ": " + f.Message
		return f
	}
	worst := slices.MaxFunc(parts, func(a, b Part) int { return cmp.Compare(badness[a.State], badness[b.State]) })
	n := map[State]int{}
	for _, p := range parts {
		n[p.State]++
	}
	var counts []string
	for _, s := range []State{Fail, Error, Warn, Pass, Skip} {
		if n[s] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return Finding{
		State: worst.State, Message: fmt.Sprintf("of %d %ss: %s", len(parts), noun, strings.Join(counts, ", ")), Fix: worst.Fix,
		Err:   worst.Err,
		Parts: parts,
	}
}
