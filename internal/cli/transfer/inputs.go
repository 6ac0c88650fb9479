package transfer

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Inputs makes inputs of a run of words of the form [NAME=]FILE or
// NAME=https://…#sha256=HEX. All are looked at before the first file is sent; sent
// hears of each.
func Inputs(ctx context.Context, runs *client.Runs, words []string, sent func(file string)) ([]api.RunInput, error) {
	all := make([]api.RunInput, len(words))
	files := make([]string, len(words))
	for i, word := range words {
		var err error
		if all[i], files[i], err = parseInput(word); err != nil {
			return nil, err
		}
	}
	for i, file := range files {
		if file == "" {
			continue
		}
		in, err := uploadOne(ctx, runs, file)
		if err != nil {
			return nil, err
		}
		all[i].ID, all[i].Hash, all[i].Size = in.ID, in.Hash, &in.Size
		sent(file)
	}
	return all, nil
}

// parseInput reads [NAME=]FILE or NAME=URL#sha256=HEX; file is empty for the latter.
func parseInput(word string) (in api.RunInput, file string, err error) {
	name, from, named := strings.Cut(word, "=")
	if !named || strings.Contains(name, "://") {
		name, from = "", word
	}
	if strings.HasPrefix(from, "https://") {
		return parseURL(name, from)
	}
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return in, "", api.Errorf(api.CodeInvalid, "--input %s: %v", word, err)
	case !info.Mode().IsRegular():
		return in, "", api.Errorf(api.CodeInvalid, "--input %s: %s is no file; pack a directory with tar", word, from)
	}
	if name == "" {
		name = filepath.Base(from)
	}
	return api.RunInput{Path: name}, from, nil
}

func parseURL(name, from string) (in api.RunInput, file string, err error) {
	address, hash, _ := strings.Cut(from, "#sha256=")
	u, err := url.Parse(address)
	if err != nil || hash == "" {
		return in, "", api.Errorf(api.CodeInvalid, "--input %s: want NAME=https://HOST/PATH#sha256=HEX", from)
	}
	if name == "" {
		name = path.Base(u.Path)
	}
	return api.RunInput{Path: name, URL: address, Hash: "sha256:" + strings.ToLower(hash)}, "", nil
}

func uploadOne(ctx context.Context, runs *client.Runs, file string) (api.Input, error) {
	r, err := os.Open(file)
	if err != nil {
		return api.Input{}, fmt.Errorf("read input: %w", err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return api.Input{}, fmt.Errorf("read input: %w", err)
	}
	return runs.Upload(ctx, r, info.Size())
}
