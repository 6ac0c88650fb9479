package keymap

// Legacy is the table of the keysyms older than Unicode.
var Legacy = legacy
