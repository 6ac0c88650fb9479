package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api/client/sse"
)

func collect(text string) (list []sse.Message, last error) {
	for m, err := range sse.Messages(strings.NewReader(text)) {
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	return list, nil
}

func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []sse.Message
	}{
		{"nothing", "", nil},
		{"one", "id: 7\nevent: a\ndata: x\n\n", []sse.Message{{"7", "a", "x"}}},
		{"no space", "data:x\n\n", []sse.Message{{"", "", "x"}}},
		{"one space only is dropped", "data:  x\n\n", []sse.Message{{"", "", " x"}}},
		{"lines", "data: x\ndata: y\n\n", []sse.Message{{"", "", "x\ny"}}},
		{"comment", ": ping\n\ndata: x\n\n", []sse.Message{{"", "", "x"}}},
		{"carriage returns", "data: x\r\n\r\n", []sse.Message{{"", "", "x"}}},
		{"the id stays", "id: 1\ndata: x\n\ndata: y\n\n", []sse.Message{{"1", "", "x"}, {"1", "", "y"}}},
		{"the kind does not", "event: a\ndata: x\n\ndata: y\n\n", []sse.Message{{"", "a", "x"}, {"", "", "y"}}},
		{"kind without data", "event: a\n\ndata: y\n\n", []sse.Message{{"", "", "y"}}},
		{"cut off", "data: x\n\ndata: y\n", []sse.Message{{"", "", "x"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := collect(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s%v", diff, err)
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	if _, err := collect("data: " + strings.Repeat("x", 5<<20)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add("id: 1\nevent: a\ndata: {}\n\n")
	f.Add(":\n\n\n:::\ndata\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := collect(text)
		if err == nil {
			t.Error("a stream ended without an error")
		}
		for _, m := range list {
			if strings.Contains(m.ID+m.Kind, "\n") {
				t.Errorf("a field runs over its line: %q", m)
			}
		}
	})
}
