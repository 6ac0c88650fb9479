package adapter_test

import "github.com/deskfork/deskfork/pkg/guest"

func clip(typ string, data []byte) guest.Clipboard { return guest.Clipboard{Type: typ, Data: data} }
