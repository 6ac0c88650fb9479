package api

import "time"

// FileType is the kind of a directory entry.
type FileType string

// File types.
const (
	FileRegular FileType = "file"
	FileDir     FileType = "dir"
	FileSymlink FileType = "symlink"
	FileOther   FileType = "other"
)

// FileInfo describes one entry of the guest's file system.
type FileInfo struct {
	Name   string    `json:"name"`
	Path   string    `json:"path" doc:"Absolute"`
	Type   FileType  `json:"type" enum:"file,dir,symlink,other"`
	Size   int64     `json:"size" doc:"Bytes"`
	Mode   uint32    `json:"mode" doc:"Permission bits, decimal in JSON"`
	MTime  time.Time `json:"mtime"`
	User   string    `json:"user"`
	Group  string    `json:"group"`
	Target string    `json:"target,omitempty" doc:"Of a symlink"`
}

// FileList is what a directory holds, by name.
type FileList struct {
	Entries []FileInfo `json:"entries"`
}

// FileChange is one event of a watch. SSE: event is change.
type FileChange struct {
	Op   string `json:"op" enum:"create,write,remove,rename,chmod,overflow"`
	Path string `json:"path"`
}

// Mkdir makes a directory.
type Mkdir struct {
	Path    string `json:"path"`
	Mode    uint32 `json:"mode,omitempty" doc:"Permission bits; default 0755"`
	Parents bool   `json:"parents,omitempty" doc:"Make missing parents; an existing directory is no error"`
}

// Rename moves an entry within the guest.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Chmod sets permission bits.
type Chmod struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
}
