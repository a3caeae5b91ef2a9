package scan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// sarifSchema is the name of the schema that the document keeps to.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// FingerprintName names our fingerprint in SARIF; the number grows when it is made in
// another way.
const FingerprintName = "quavon/v1"

// srcRoot is what paths are relative to.
const srcRoot = "%SRCROOT%"

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Automation  sarifID                  `json:"automationDetails"`
	Invocations []sarifInvocation        `json:"invocations"`
	Bases       map[string]sarifArtifact `json:"originalUriBaseIds"`
	ColumnKind  string                   `json:"columnKind"`
	Results     []sarifResult            `json:"results"`
	Properties  map[string]any           `json:"properties,omitempty"`
}

type sarifID struct {
	ID string `json:"id"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	URI   string      `json:"informationUri,omitempty"`
	Rules []sarifRule `json:"rules"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID      string         `json:"id"`
	Short   sarifText      `json:"shortDescription"`
	HelpURI string         `json:"helpUri,omitempty"`
	Default sarifLevel     `json:"defaultConfiguration"`
	Props   map[string]any `json:"properties,omitempty"`
}

type sarifLevel struct {
	Level Level `json:"level"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   Level     `json:"level"`
	Message sarifText `json:"message"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        Level             `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
	Props        map[string]any    `json:"properties,omitempty"`
}

type sarifLocation struct {
	Physical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	} `json:"physicalLocation"`
}

type sarifArtifact struct {
	URI         string     `json:"uri,omitempty"`
	Base        string     `json:"uriBaseId,omitempty"`
	Description *sarifText `json:"description,omitempty"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
	EndLine     int `json:"endLine,omitempty"`
	EndColumn   int `json:"endColumn,omitempty"`
}

// WriteSARIF writes the report as one SARIF 2.1.0 document, with a run for each
// scanner that wasn't disabled. image is the digest of what the scanners are in.
func (r *Report) WriteSARIF(w io.Writer, image string) error {
	doc := sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{}}
	for _, t := range r.Tools {
		if t.Status != StatusDisabled {
			doc.Runs = append(doc.Runs, r.sarifRun(t, image))
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func (r *Report) sarifRun(t Tool, image string) sarifRun {
	run := sarifRun{
		Automation: sarifID{"quavon/" + t.Name + "/"},
		ColumnKind: "unicodeCodePoints", Results: []sarifResult{},
		Bases:       map[string]sarifArtifact{srcRoot: {Description: &sarifText{"The top of the repository."}}},
		Invocations: []sarifInvocation{{Successful: t.Status != StatusError}},
	}
	if image != "" {
		run.Properties = map[string]any{"image": image}
	}
	for _, e := range t.Errors {
		run.Invocations[0].notify(LevelError, e)
	}
	for _, n := range t.Notes {
		run.Invocations[0].notify(LevelWarning, n)
	}
	if t.Status == StatusSkipped {
		run.Invocations[0].notify(LevelNote, "there are no files for this scanner")
	}
	findings := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Tool != t.Name })
	rules, index := sarifRules(findings)
	run.Tool.Driver = sarifDriver{Name: t.Name, URI: uriOf(t.Name), Rules: rules}
	for _, f := range findings {
		run.Results = append(run.Results, f.sarif(index[f.Rule]))
	}
	return run
}

func (i *sarifInvocation) notify(level Level, text string) {
	i.Notifications = append(i.Notifications, sarifNotification{level, sarifText{text}})
}

func uriOf(name string) string {
	for _, t := range tools {
		if t.Name == name {
			return t.URI
		}
	}
	return ""
}

// sarifRules describes each rule once, sorted, as its first finding does.
func sarifRules(findings []Finding) (rules []sarifRule, index map[string]int) {
	first := map[string]Finding{}
	for _, f := range slices.Backward(findings) {
		first[f.Rule] = f
	}
	rules, index = []sarifRule{}, map[string]int{}
	for i, id := range slices.Sorted(maps.Keys(first)) {
		f := first[id]
		rule := sarifRule{ID: id, Short: sarifText{f.Message}, HelpURI: f.Help, Default: sarifLevel{f.Level}}
		tags := []string{"security"}
		if f.CWE > 0 {
			tags = append(tags, fmt.Sprintf("external/cwe/cwe-%03d", f.CWE))
		}
		rule.Props = map[string]any{"tags": tags}
		rules, index[id] = append(rules, rule), i
	}
	return rules, index
}

func (f Finding) sarif(rule int) sarifResult {
	res := sarifResult{RuleID: f.Rule, RuleIndex: rule, Level: f.Level, Message: sarifText{f.Message}}
	var at sarifLocation
	at.Physical.Artifact = sarifArtifact{URI: pathURI(f.Path), Base: srcRoot}
	at.Physical.Region = sarifRegion{f.Line, f.Column, cmp.Or(f.EndLine, f.Line), f.EndColumn}
	res.Locations = []sarifLocation{at}
	if f.Fingerprint != "" {
		res.Fingerprints = map[string]string{FingerprintName: f.Fingerprint}
	}
	if f.Confidence != "" {
		res.Props = map[string]any{"confidence": f.Confidence}
	}
	return res
}

// pathURI is a path as a relative URI: each of its names escaped.
func pathURI(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	uri := strings.Join(parts, "/")
	if strings.Contains(parts[0], ":") { // else it is read as a scheme
		uri = "./" + uri
	}
	return uri
}
