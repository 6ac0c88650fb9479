package build

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deskfork/deskfork/pkg/image"
)

// Names in a recipe's directory.
const (
	RecipeFile = "recipe.yaml"
	OverlayDir = "overlay"

	maxRecipeBytes = 1 << 20
)

// Recipe is what an image is built from.
type Recipe struct {
	Name        string    `yaml:"name"`
	Tag         string    `yaml:"tag"` // "" means image.DefaultTag
	Description string    `yaml:"description"`
	Debian      Debian    `yaml:"debian"`
	Epoch       time.Time `yaml:"epoch"`    // files newer than this get this time
	Packages    []string  `yaml:"packages"` // without the kernel
	Exclude     []string  `yaml:"exclude"`  // dpkg path-exclude patterns
	Include     []string  `yaml:"include"`  // dpkg path-include patterns
	Kernel      Kernel    `yaml:"kernel"`
	Disk        Disk      `yaml:"disk"`
	Guest       Guest     `yaml:"guest"`
	Hooks       []string  `yaml:"hooks"` // paths in Dir, run in this order

	// Dir is where the recipe was read from; set by Load.
	Dir string `yaml:"-"`
}

// Debian is where packages come from.
type Debian struct {
	Suite          string   `yaml:"suite"`
	Variant        string   `yaml:"variant"` // of mmdebstrap
	Components     []string `yaml:"components"`
	Mirror         string   `yaml:"mirror"`
	SecurityMirror string   `yaml:"security_mirror"` // "" means none
	Updates        bool     `yaml:"updates"`         // SUITE-updates too
}

// Kernel is the kernel and what its initramfs loads.
type Kernel struct {
	Package string   `yaml:"package"`
	Modules []string `yaml:"modules"` // in this order, dependencies are added
	Cmdline string   `yaml:"cmdline"`
}

// Disk is the file system of the system disk.
type Disk struct {
	SizeMiB    int64  `yaml:"size_mib"`
	ContentMiB int64  `yaml:"content_mib"` // about what the files take; for the check of free space
	Label      string `yaml:"label"`
	UUID       string `yaml:"uuid"`
	HashSeed   string `yaml:"hash_seed"`
}

// Guest is what runs in the image.
type Guest struct {
	OS       string `yaml:"os"`
	Hostname string `yaml:"hostname"`
	User     string `yaml:"user"`
	UID      int    `yaml:"uid"`
	Display  string `yaml:"display"` // WIDTHxHEIGHT, pixels
	Park     Park   `yaml:"park"`    // may be absent
}

// Park is what stands ready when a boot snapshot is sealed; see image.Park.
type Park struct {
	Argv  []string `yaml:"argv"`
	Class string   `yaml:"class"`
}

// RecipeError says what is wrong with a recipe. It wraps image.ErrBadRecipe.
type RecipeError struct {
	File string
	Err  error // names the line where it can
}

// Error names file and fault.
func (e *RecipeError) Error() string { return fmt.Sprintf("read recipe %s: %v", e.File, e.Err) }

// Unwrap returns image.ErrBadRecipe and the cause.
func (e *RecipeError) Unwrap() []error { return []error{image.ErrBadRecipe, e.Err} }

// Hint tells where the format is described.
func (e *RecipeError) Hint() string {
	return "correct " + e.File + "; the format is type Recipe in pkg/image/build, an example is images/debian-xfce"
}

// Load reads and checks the recipe in dir, and that its hooks are there. A recipe that
// does not parse or check is a *RecipeError with all faults.
func Load(dir string) (*Recipe, error) {
	path := filepath.Join(dir, RecipeFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &RecipeError{File: path, Err: err}
	}
	r, err := Parse(data)
	if err != nil {
		return nil, &RecipeError{File: path, Err: err}
	}
	if r.Dir, err = filepath.Abs(dir); err != nil {
		return nil, &RecipeError{File: path, Err: err}
	}
	var errs []error
	for _, h := range r.Hooks {
		st, err := os.Stat(filepath.Join(dir, h))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("hook: %w", err))
		case !st.Mode().IsRegular():
			errs = append(errs, fmt.Errorf("hook %s: not a file", h))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &RecipeError{File: path, Err: err}
	}
	return r, nil
}

// Parse reads a recipe strictly: an unknown or doubled field, a second document and values
// out of range are errors.
func Parse(data []byte) (*Recipe, error) {
	if len(data) > maxRecipeBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxRecipeBytes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var r Recipe
	if err := dec.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("is empty")
		}
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	if r.Tag == "" {
		r.Tag = image.DefaultTag
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return &r, nil
}
