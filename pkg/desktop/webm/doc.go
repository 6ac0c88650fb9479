// Package webm writes recordings of a screen as WebM: one track of video, with cues
// at every key and chapters.
//
// A file grows at its end alone, picture by picture, and can be played at any moment.
// Finish adds what makes it seekable: cues, chapters, its duration. A file whose
// writer died before that is taken up again by Recover.
package webm
