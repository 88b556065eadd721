package agent

import "runtime/debug"

// Version of the build, set by the linker: -X github.com/porpoise-dev/porpoise/internal/agent.Version=1.2.3.
var Version = ""

// BuildVersion returns Version, or the module's version, or the revision it was built from.
func BuildVersion() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
