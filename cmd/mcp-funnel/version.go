package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"
)

// version is set by the linker when a release is built, with
// -ldflags "-X main.version=1.2.3". Nothing else writes it.
var version string

// buildVersion is the version of this program: that of the release, else that of
// the module it was installed from, else "devel".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Protocol is the newest version of MCP that is spoken.
	Protocol string `json:"protocol"`
}

func newVersionCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version of this program, of Go, and the newest version of MCP it speaks.",
		Example: "  mcp-funnel version\n  mcp-funnel version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			info := versionInfo{
				Version: buildVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
				Protocol: mcp.LATEST_LEGACY_PROTOCOL_VERSION,
			}
			if asJSON {
				return json.NewEncoder(env.stdout).Encode(info)
			}
			_, err := fmt.Fprintf(env.stdout, "mcp-funnel %s (%s, %s/%s, MCP %s)\n",
				info.Version, info.Go, info.OS, info.Arch, info.Protocol)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
