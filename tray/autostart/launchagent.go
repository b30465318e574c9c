package autostart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// launchAgent keeps the entry as a property list for launchd(8), which reads it at
// the next login.
type launchAgent struct {
	options Options
	path    string
}

func newLaunchAgent(o Options) *launchAgent {
	return &launchAgent{options: o, path: filepath.Join(o.Home, "Library", "LaunchAgents", id+".plist")}
}

// plistMarker is in files that this program wrote.
const plistMarker = "<!-- Written by MCP Funnel -->"

func (l *launchAgent) status() (Status, error) {
	data, err := readFile(l.path)
	return Status{On: err == nil && data != nil && !plistDisabled(data), File: l.path}, err
}

func (l *launchAgent) enable() error {
	data, err := readFile(l.path)
	if err != nil {
		return err
	}
	if data != nil && !plistOurs(data) {
		if plistDisabled(data) {
			return l.foreign()
		}
		return nil // in the user's own words
	}
	return writeFile(l.path, plistText(l.options.arguments()))
}

func (l *launchAgent) disable() error {
	data, err := readFile(l.path)
	if err != nil {
		return err
	}
	if data != nil && !plistOurs(data) {
		if plistDisabled(data) {
			return nil
		}
		return l.foreign()
	}
	return removeFile(l.path)
}

func (l *launchAgent) foreign() error {
	return fmt.Errorf("%s was not written by MCP Funnel; change or remove it yourself", l.path)
}

func plistOurs(data []byte) bool { return bytes.Contains(data, []byte(plistMarker)) }

func (l *launchAgent) refresh() (bool, error) {
	data, err := readFile(l.path)
	if err != nil || !plistOurs(data) || plistDisabled(data) {
		return false, err
	}
	if !missing(plistProgram(data)) {
		return false, nil
	}
	return true, writeFile(l.path, plistText(l.options.arguments()))
}

// plistText is the entry as we write it. Without KeepAlive: what the user has quit
// must stay so.
func plistText(arguments []string) []byte {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	b.WriteString(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	b.WriteString(plistMarker + "\n<plist version=\"1.0\">\n<dict>\n")
	b.WriteString("\t<key>Label</key>\n\t<string>" + id + "</string>\n\t<key>ProgramArguments</key>\n\t<array>\n")
	for _, a := range arguments {
		b.WriteString("\t\t<string>")
		// A buffer takes everything.
		_ = xml.EscapeText(&b, []byte(a))
		b.WriteString("</string>\n")
	}
	b.WriteString("\t</array>\n\t<key>RunAtLoad</key>\n\t<true/>\n\t<key>LimitLoadToSessionType</key>\n\t<string>Aqua</string>\n" +
		"\t<key>ProcessType</key>\n\t<string>Interactive</string>\n</dict>\n</plist>\n")
	return b.Bytes()
}

// plistProgram is the first program argument; "" where there is none.
func plistProgram(data []byte) string {
	return plistAfter(data, "ProgramArguments", func(element, text string) (string, bool) {
		return text, element == "string"
	})
}

// plistDisabled reports whether the list says that it is not in force.
func plistDisabled(data []byte) bool {
	return plistAfter(data, "Disabled", func(element, _ string) (string, bool) {
		return element, element == "true" || element == "false"
	}) == "true"
}

// plistAfter returns what pick takes of the first element after a key.
func plistAfter(data []byte, key string, pick func(element, text string) (string, bool)) string {
	decoder := xml.NewDecoder(bytes.NewReader(data))
	var text strings.Builder
	found := false
	for {
		token, err := decoder.Token()
		if err != nil {
			return "" // the end, or no property list
		}
		switch t := token.(type) {
		case xml.StartElement:
			text.Reset()
		case xml.CharData:
			text.Write(t)
		case xml.EndElement:
			if value, ok := pick(t.Name.Local, text.String()); found && ok {
				return value
			}
			if t.Name.Local == "key" {
				found = text.String() == key
			}
		}
	}
}
