package steady_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/x/steady"
)

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := steady.Clock()
		if got := now(); !got.Equal(began) {
			t.Errorf("it begins at %v, at %v", got, began)
		}
		<-time.After(time.Hour)
		if got := now(); !got.Equal(began.Add(time.Hour)) {
			t.Errorf("an hour after %v it says %v", began, got)
		}
	})
}
