package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// disk is what durability costs on.
type disk struct {
	filesystem string
	// fsync is the median time of writing and syncing 4 KiB.
	fsync time.Duration
}

// filesystems by the magic numbers of statfs(2).
var filesystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
}

// measureDisk looks at the disk below a folder. One in memory is refused: syncing is free there.
func measureDisk(dir string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return disk{}, fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	d := disk{filesystem: filesystems[st.Type]}
	switch d.filesystem {
	case "":
		d.filesystem = fmt.Sprintf("file system %#x", st.Type)
	case "tmpfs":
		return disk{}, fmt.Errorf("%s is in memory, where syncing costs nothing: give a folder on a disk with --dir", dir)
	}
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return disk{}, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { _ = file.Close() }()
	const times = 101
	took := make([]time.Duration, 0, times)
	for range times {
		began := time.Now()
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return disk{}, fmt.Errorf("measure fsync: %w", err)
		}
		if err := file.Sync(); err != nil {
			return disk{}, fmt.Errorf("measure fsync: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	d.fsync = took[times/2]
	return d, nil
}
