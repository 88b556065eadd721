package cluster

import (
	"slices"
	"testing"
)

func TestMountsBelowFindsOnlyWhatIsInside(t *testing.T) {
	info := `1 0 0:1 / / rw - ext4 /dev/vda rw
2 1 0:2 / /state/a rw - tmpfs tmpfs rw
3 1 0:2 / /state/a/with\040space rw - tmpfs tmpfs rw
4 1 0:2 / /state/ab rw - tmpfs tmpfs rw
`
	got := mountsBelow(info, "/state/a")
	if want := []string{"/state/a", "/state/a/with space"}; !slices.Equal(got, want) {
		t.Errorf("mountsBelow = %q; want %q", got, want)
	}
}
