package scan

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
	var found []struct {
		RuleID   string `json:"ruleId"`
		Severity string `json:"severity"`
		Message  string `json:"message"`
		Note     string `json:"note"`
		File     string `json:"file"`
		Range    span   `json:"range"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	levels := map[string]Level{"error": LevelError, "warning": LevelWarning, "info": LevelNote, "hint": LevelNote}
	for _, f := range found {
		to.add(Finding{
			Rule: f.RuleID, Level: levels[f.Severity], Message: strings.TrimSpace(f.Message + " " + f.Note), Path: f.File,
			Line: f.Range.Start.Line + 1, Column: f.Range.Start.Column + 1, // it counts both from 0
			EndLine: f.Range.End.Line + 1, EndColumn: f.Range.End.Column + 1,
		})
	}
	return nil
}

func parseGitleaks(out []byte, to *sink) error {
	var found []struct {
		RuleID      string
		Description string
		StartLine   int
		EndLine     int
		Match       string
		File        string
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	for _, f := range found {
		to.add(Finding{
			Rule: f.RuleID, Level: LevelError, Message: f.Description, Path: f.File,
			Line: f.StartLine, EndLine: f.EndLine, // its columns are wrong in all but the first line
			text: "match: " + f.Match, // without the secret, which a fingerprint would let somebody guess
		})
	}
	return nil
}

// scores are the words of bandit and gosec for how bad a flaw is.
var scores = map[string]Level{"HIGH": LevelError, "MEDIUM": LevelWarning, "LOW": LevelNote}

func parseBandit(out []byte, to *sink) error {
	var doc struct {
		Errors []struct {
			Filename string `json:"filename"`
			Reason   string `json:"reason"`
		} `json:"errors"`
		Results []struct {
			TestID     string `json:"test_id"`
			Severity   string `json:"issue_severity"`
			Confidence string `json:"issue_confidence"`
			Text       string `json:"issue_text"`
			CWE        struct {
				ID int `json:"id"`
			} `json:"issue_cwe"`
			Filename  string `json:"filename"`
			Line      int    `json:"line_number"`
			Lines     []int  `json:"line_range"`
			Column    int    `json:"col_offset"`
			EndColumn int    `json:"end_col_offset"`
			MoreInfo  string `json:"more_info"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	for _, e := range doc.Errors {
		to.note(fmt.Sprintf("%s was not read: %s", e.Filename, e.Reason))
	}
	for _, f := range doc.Results {
		end := f.Line
		if len(f.Lines) > 0 {
			end = slices.Max(f.Lines)
		}
		to.add(Finding{
			Rule: f.TestID, Level: scores[f.Severity], Message: f.Text, Path: f.Filename, CWE: f.CWE.ID,
			Confidence: strings.ToLower(f.Confidence), Help: f.MoreInfo,
			Line: f.Line, EndLine: end, Column: f.Column + 1, EndColumn: f.EndColumn + 1, unit: bytesUTF8, // from 0
		})
	}
	return nil
}

var lineRange = regexp.MustCompile(`^(\d{1,9})(?:-(\d{1,9}))?$`)

func parseGosec(out []byte, to *sink) error {
	var doc struct {
		Errors map[string][]struct {
			Line  int    `json:"line"`
			Error string `json:"error"`
		} `json:"Golang errors"`
		Issues []struct {
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
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	for _, f := range doc.Issues {
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
	}
	files := make([]string, 0, len(doc.Errors))
	for file := range doc.Errors {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		for _, e := range doc.Errors[file] {
			to.fail(fmt.Sprintf("can't load %s: %s", file, e.Error))
		}
	}
	return nil
}

func parseRuff(out []byte, to *sink) error {
	var found []struct {
		Code     *string  `json:"code"`
		Message  string   `json:"message"`
		Filename string   `json:"filename"`
		Location position `json:"location"`
		End      position `json:"end_location"`
		URL      *string  `json:"url"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	for _, f := range found {
		if f.Code == nil || *f.Code == "invalid-syntax" {
			to.note(fmt.Sprintf("%s:%d was not read: %s", f.Filename, f.Location.Row, f.Message))
			continue
		}
		help := ""
		if f.URL != nil {
			help = *f.URL
		}
		to.add(Finding{
			Rule: *f.Code, Level: LevelWarning, Message: f.Message, Path: f.Filename, Help: help,
			Line: f.Location.Row, Column: f.Location.Column, EndLine: f.End.Row, EndColumn: f.End.Column,
		})
	}
	return nil
}

func parseESLint(out []byte, to *sink) error {
	var doc []struct {
		FilePath string `json:"filePath"`
		Messages []struct {
			RuleID    string `json:"ruleId"`
			Severity  int    `json:"severity"`
			Fatal     bool   `json:"fatal"`
			Message   string `json:"message"`
			Line      int    `json:"line"`
			Column    int    `json:"column"`
			EndLine   int    `json:"endLine"`
			EndColumn int    `json:"endColumn"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	for _, file := range doc {
		for _, m := range file.Messages {
			if m.Fatal || m.RuleID == "" {
				to.note(fmt.Sprintf("%s:%d was not read: %s", file.FilePath, m.Line, m.Message))
				continue
			}
			level := LevelWarning
			if m.Severity > 1 {
				level = LevelError
			}
			to.add(Finding{
				Rule: m.RuleID, Level: level, Message: m.Message, Path: file.FilePath, Help: eslintHelp(m.RuleID),
				Line: m.Line, Column: m.Column, EndLine: m.EndLine, EndColumn: m.EndColumn, unit: utf16Units,
			})
		}
	}
	return nil
}

// eslintHelp is the page of a rule of the one plugin that the image has.
func eslintHelp(rule string) string {
	name, ok := strings.CutPrefix(rule, "security/")
	if !ok || strings.ContainsAny(name, "/?#% ") {
		return ""
	}
	return "https://github.com/eslint-community/eslint-plugin-security/blob/main/docs/rules/" + name + ".md"
}
