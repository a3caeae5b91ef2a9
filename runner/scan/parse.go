package scan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The scanners' own forms of JSON: only what is used is read. A missing field is its
// zero value, and a sink makes the best of that.

type position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	// Row is Ruff's word for a line.
	Row int `json:"row"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

func parseASTGrep(out []byte, to *sink) error {
	type finding struct {
		RuleID   string `json:"ruleId"`
		Severity string `json:"severity"`
		Message  string `json:"message"`
		Note     string `json:"note"`
		File     string `json:"file"`
		Range    span   `json:"range"`
	}
	levels := map[string]Level{"error": LevelError, "warning": LevelWarning, "info": LevelNote, "hint": LevelNote}
	return each(out, func(f finding) {
		to.add(Finding{
			Rule: f.RuleID, Level: levels[f.Severity], Message: strings.TrimSpace(f.Message + " " + f.Note), Path: f.File,
			Line: f.Range.Start.Line + 1, Column: f.Range.Start.Column + 1, // it counts both from 0
			EndLine: f.Range.End.Line + 1, EndColumn: f.Range.End.Column + 1,
		})
	})
}

func parseGitleaks(out []byte, to *sink) error {
	type finding struct {
		RuleID      string
		Description string
		StartLine   int
		EndLine     int
		Match       string
		File        string
	}
	return each(out, func(f finding) {
		to.add(Finding{
			Rule: f.RuleID, Level: LevelError, Message: f.Description, Path: f.File,
			Line: f.StartLine, EndLine: f.EndLine, // its columns are wrong in all but the first line
			text: "match: " + f.Match, // without the secret, which a fingerprint would let somebody guess
		})
	})
}

// scores are the words of bandit and gosec for how bad a flaw is.
var scores = map[string]Level{"HIGH": LevelError, "MEDIUM": LevelWarning, "LOW": LevelNote}

func parseBandit(out []byte, to *sink) error {
	type failure struct {
		Filename string `json:"filename"`
		Reason   string `json:"reason"`
	}
	type finding struct {
		TestID     string `json:"test_id"`
		Severity   string `json:"issue_severity"`
		Confidence string `json:"issue_confidence"`
		Text       string `json:"issue_text"`
		CWE        struct {
			ID int `json:"id"`
		} `json:"issue_cwe"`
		Filename  string          `json:"filename"`
		Line      int             `json:"line_number"`
		Lines     json.RawMessage `json:"line_range"`
		Column    int             `json:"col_offset"`
		EndColumn int             `json:"end_col_offset"`
		MoreInfo  string          `json:"more_info"`
	}
	var doc struct {
		Errors  json.RawMessage `json:"errors"`
		Results json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	err := each(doc.Errors, func(e failure) { to.note(fmt.Sprintf("%s was not read: %s", e.Filename, e.Reason)) })
	return errors.Join(err, each(doc.Results, func(f finding) {
		end := f.Line
		_ = each(f.Lines, func(n int) { end = max(end, n) }) // one that isn't a number ends it
		to.add(Finding{
			Rule: f.TestID, Level: scores[f.Severity], Message: f.Text, Path: f.Filename, CWE: f.CWE.ID,
			Confidence: strings.ToLower(f.Confidence), Help: f.MoreInfo,
			Line: f.Line, EndLine: end, Column: f.Column + 1, EndColumn: f.EndColumn + 1, unit: bytesUTF8, // from 0
		})
	}))
}

var lineRange = regexp.MustCompile(`^(\d{1,9})(?:-(\d{1,9}))?$`)

func parseGosec(out []byte, to *sink) error {
	type failure struct {
		Line  int    `json:"line"`
		Error string `json:"error"`
	}
	type finding struct {
		RuleID     string `json:"rule_id"`
		Severity   string `json:"severity"`
		Confidence string `json:"confidence"`
		CWE        struct {
			ID string `json:"id"`
		} `json:"cwe"`
		Details string `json:"details"`
		File    string `json:"file"`
		Line    string `json:"line"`
		Column  string `json:"column"`
	}
	var doc struct {
		Errors json.RawMessage `json:"Golang errors"`
		Issues json.RawMessage
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	var inner error
	err := members(doc.Errors, func(file string, list json.RawMessage) {
		err := each(list, func(e failure) { to.fail(fmt.Sprintf("can't load %s: %s", file, e.Error)) })
		inner = cmp.Or(inner, err)
	})
	return errors.Join(err, inner, each(doc.Issues, func(f finding) {
		var line, end int
		if m := lineRange.FindStringSubmatch(f.Line); m != nil {
			line, _ = strconv.Atoi(m[1])
			end, _ = strconv.Atoi(m[2])
		}
		column, _ := strconv.Atoi(f.Column)
		cwe, _ := strconv.Atoi(f.CWE.ID)
		to.add(Finding{
			Rule: f.RuleID, Level: scores[f.Severity], Message: f.Details, Path: f.File, CWE: cwe,
			Confidence: strings.ToLower(f.Confidence), Line: line, EndLine: end, Column: column, unit: bytesUTF8,
		})
	}))
}

func parseRuff(out []byte, to *sink) error {
	type finding struct {
		Cell     int      `json:"cell"`
		Code     string   `json:"code"`
		Message  string   `json:"message"`
		Filename string   `json:"filename"`
		Location position `json:"location"`
		End      position `json:"end_location"`
		URL      string   `json:"url"`
	}
	return each(out, func(f finding) {
		if f.Code == "" || f.Code == "invalid-syntax" {
			to.note(fmt.Sprintf("%s:%d was not read: %s", f.Filename, f.Location.Row, f.Message))
			return
		}
		found := Finding{
			Rule: f.Code, Level: LevelWarning, Message: f.Message, Path: f.Filename, Help: f.URL,
			Line: f.Location.Row, Column: f.Location.Column, EndLine: f.End.Row, EndColumn: f.End.Column,
		}
		if f.Cell > 0 { // of a notebook: its lines are the cell's, not the file's
			found.Message = fmt.Sprintf("%s (cell %d, line %d)", f.Message, f.Cell, f.Location.Row)
			found.Line, found.Column, found.EndLine, found.EndColumn = 1, 0, 1, 0
			found.unsure, found.text = true, "cell: "+f.Message
		}
		to.add(found)
	})
}

func parseESLint(out []byte, to *sink) error {
	type message struct {
		RuleID    string `json:"ruleId"`
		Severity  int    `json:"severity"`
		Fatal     bool   `json:"fatal"`
		Message   string `json:"message"`
		Line      int    `json:"line"`
		Column    int    `json:"column"`
		EndLine   int    `json:"endLine"`
		EndColumn int    `json:"endColumn"`
	}
	type file struct {
		FilePath string          `json:"filePath"`
		Messages json.RawMessage `json:"messages"`
	}
	var inner error
	err := each(out, func(f file) {
		err := each(f.Messages, func(m message) {
			if m.Fatal || m.RuleID == "" {
				to.note(fmt.Sprintf("%s:%d was not read: %s", f.FilePath, m.Line, m.Message))
				return
			}
			level := LevelWarning
			if m.Severity > 1 {
				level = LevelError
			}
			to.add(Finding{
				Rule: m.RuleID, Level: level, Message: m.Message, Path: f.FilePath, Help: eslintHelp(m.RuleID),
				Line: m.Line, Column: m.Column, EndLine: m.EndLine, EndColumn: m.EndColumn, unit: utf16Units,
			})
		})
		inner = cmp.Or(inner, err)
	})
	return errors.Join(err, inner)
}

// eslintHelp is the page of a rule of the one plugin that the image has.
func eslintHelp(rule string) string {
	name, ok := strings.CutPrefix(rule, "security/")
	if !ok || strings.ContainsAny(name, "/?#% ") {
		return ""
	}
	return "https://github.com/eslint-community/eslint-plugin-security/blob/main/docs/rules/" + name + ".md"
}
