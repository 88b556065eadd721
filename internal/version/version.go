package version

import (
	"fmt"
	"runtime"
)

// Set by -ldflags "-X …". A program built without them is a developer's.
var (
	version = "dev"
	commit  = "unknown"
)

// Version is the product's version, e.g. v1.2.0 or v1.2.0-14-g2ab17c3-dirty.
func Version() string { return version }

// Commit is the git commit of the build.
func Commit() string { return commit }

// String is one line for people.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
