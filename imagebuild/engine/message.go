package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxMessage bounds one line of what the engine sends.
const maxMessage = 16 << 20

// message is one line of the engine's answer.
type message struct {
	ID     string          `json:"id"`
	Stream string          `json:"stream"`
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Aux    json.RawMessage `json:"aux"`
}

// messages reads an answer to its end. It returns the ID of the image that was
// built, if any, and the error that the engine reports.
func messages(r io.Reader, each func(*message)) (id string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxMessage)
	for lines.Scan() {
		m := new(message)
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), m); err != nil {
			return id, fmt.Errorf("the engine sends no JSON: %w", err)
		}
		if m.Error != "" {
			return id, errors.New(m.Error)
		}
		if m.ID == "" || m.ID == "moby.image.id" {
			var built struct{ ID string }
			if json.Unmarshal(m.Aux, &built) == nil && built.ID != "" {
				id = built.ID
			}
		}
		each(m)
	}
	return id, lines.Err()
}
