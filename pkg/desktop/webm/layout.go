package webm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/at-wat/ebml-go"
	"github.com/at-wat/ebml-go/webm"
)

// The parts of a file, in order: the head, which says that it is WebM and begins the
// segment; the front, of a fixed size, that Finish writes anew; clusters; cues;
// chapters.
const (
	frontSize = 512 // bytes
	// wideSize is how many bytes the sizes that are filled in later take.
	wideSize = 8
	timeUnit = time.Millisecond
)

// Identifiers of elements.
const (
	idCluster     = 0x1F43B675
	idTimecode    = 0xE7
	idSimpleBlock = 0xA3
	idCues        = 0x1C53BB6B
	idChapters    = 0x1043A770
	idInfo        = 0x1549A966
	idTracks      = 0x1654AE6B
	idVoid        = 0xEC
)

// head is the part before the front; the size of the segment is its last 8 bytes.
func head() ([]byte, error) {
	return marshal(&struct {
		EBML    webm.EBMLHeader `ebml:"EBML"`
		Segment struct{}        `ebml:"Segment,size=unknown"`
	}{EBML: webm.EBMLHeader{
		EBMLVersion: 1, EBMLReadVersion: 1, EBMLMaxIDLength: 4, EBMLMaxSizeLength: 8,
		DocType: "webm", DocTypeVersion: 4, DocTypeReadVersion: 2,
	}})
}

// info is webm.Info with a duration only once that is known.
type info struct {
	TimecodeScale uint64    `ebml:"TimecodeScale"`
	Duration      *float64  `ebml:"Duration"`
	DateUTC       time.Time `ebml:"DateUTC"`
	MuxingApp     string    `ebml:"MuxingApp"`
	WritingApp    string    `ebml:"WritingApp"`
}

// front is the part with a fixed size; duration is nil until the end is known, and so
// are the places of cues and chapters, from the segment's start, zero.
func (c Config) front(duration *time.Duration, cues, chapters int64) ([]byte, error) {
	about, err := marshal(&struct {
		Info info `ebml:"Info"`
	}{c.info(duration)})
	if err != nil {
		return nil, err
	}
	codec := map[string]string{VP9: "V_VP9", VP8: "V_VP8"}[c.Codec]
	tracks, err := marshal(&struct {
		Tracks webm.Tracks `ebml:"Tracks"`
	}{webm.Tracks{TrackEntry: []webm.TrackEntry{{
		TrackNumber: 1, TrackUID: 1, TrackType: 1, CodecID: codec, Video: &webm.Video{PixelWidth: uint64(c.Width), PixelHeight: uint64(c.Height)},
	}}}})
	if err != nil {
		return nil, err
	}
	var seek []byte
	if cues > 0 {
		// The front's own parts come last in it, so their places are known.
		at := int64(frontSize - len(about) - len(tracks))
		list := []webm.Seek{{SeekID: id(idInfo), SeekPosition: uint64(at)}, {SeekID: id(idTracks), SeekPosition: uint64(at) + uint64(len(about))}, {SeekID: id(idCues), SeekPosition: uint64(cues)}}
		if chapters > 0 {
			list = append(list, webm.Seek{SeekID: id(idChapters), SeekPosition: uint64(chapters)})
		}
		if seek, err = marshal(&struct {
			SeekHead webm.SeekHead `ebml:"SeekHead"`
		}{webm.SeekHead{Seek: list}}); err != nil {
			return nil, err
		}
	}
	left := frontSize - len(seek) - len(about) - len(tracks)
	if left <= wideSize {
		return nil, fmt.Errorf("write WebM: its front has no room for %d bytes", len(seek)+len(about)+len(tracks))
	}
	return bytes.Join([][]byte{seek, void(left), about, tracks}, nil), nil
}

func (c Config) info(duration *time.Duration) info {
	i := info{TimecodeScale: uint64(timeUnit), DateUTC: c.Begun.UTC(), MuxingApp: "deskfork", WritingApp: "deskfork"}
	if duration != nil {
		d := float64(*duration) / float64(timeUnit)
		i.Duration = &d
	}
	return i
}

// void is n bytes, at least 9, that say nothing.
func void(n int) []byte {
	b := append([]byte{idVoid}, wide(int64(n-1-wideSize))...)
	return append(b, make([]byte, n-len(b))...)
}

// wide is a size in 8 bytes.
func wide(n int64) []byte { return binary.BigEndian.AppendUint64(nil, 1<<56|uint64(n)) }

// id is an identifier of 4 bytes.
func id(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// cluster begins a cluster, whose size comes later: the 8 bytes after its id.
func cluster(at time.Duration) ([]byte, error) {
	return marshal(&struct {
		Cluster struct {
			Timecode uint64 `ebml:"Timecode"`
		} `ebml:"Cluster,size=unknown"`
	}{struct {
		Timecode uint64 `ebml:"Timecode"`
	}{uint64(at / timeUnit)}})
}

// block is one picture.
func block(after time.Duration, key bool, data []byte) ([]byte, error) {
	return marshal(&struct {
		SimpleBlock ebml.Block `ebml:"SimpleBlock"`
	}{ebml.Block{TrackNumber: 1, Timecode: int16(after / timeUnit), Keyframe: key, Data: [][]byte{data}}})
}

// cuesOf is the list of keys.
func cuesOf(list []cue) ([]byte, error) {
	points := make([]webm.CuePoint, 0, len(list))
	for _, c := range list {
		points = append(points, webm.CuePoint{
			CueTime: uint64(c.at / timeUnit), CueTrackPositions: []webm.CueTrackPosition{{CueTrack: 1, CueClusterPosition: uint64(c.cluster)}},
		})
	}
	return marshal(&struct {
		Cues webm.Cues `ebml:"Cues"`
	}{webm.Cues{CuePoint: points}})
}

type atom struct {
	ChapterUID       uint64 `ebml:"ChapterUID"`
	ChapterTimeStart uint64 `ebml:"ChapterTimeStart"`
	ChapterTimeEnd   uint64 `ebml:"ChapterTimeEnd"`
	ChapterDisplay   struct {
		ChapString   string `ebml:"ChapString"`
		ChapLanguage string `ebml:"ChapLanguage"`
	} `ebml:"ChapterDisplay"`
}

type edition struct {
	EditionUID  uint64 `ebml:"EditionUID"`
	ChapterAtom []atom `ebml:"ChapterAtom"`
}

// chaptersOf is the chapters of a file that ends at end; nothing when there are none.
func chaptersOf(list []Chapter, end time.Duration) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	all := edition{EditionUID: 1}
	for i, c := range list {
		until := end
		if i+1 < len(list) {
			until = list[i+1].At
		}
		a := atom{ChapterUID: uint64(i + 1), ChapterTimeStart: uint64(min(c.At, end)), ChapterTimeEnd: uint64(min(until, end))}
		a.ChapterDisplay.ChapString, a.ChapterDisplay.ChapLanguage = c.Title, "und"
		all.ChapterAtom = append(all.ChapterAtom, a)
	}
	return marshal(&struct {
		Chapters struct {
			EditionEntry edition `ebml:"EditionEntry"`
		} `ebml:"Chapters"`
	}{struct {
		EditionEntry edition `ebml:"EditionEntry"`
	}{all}})
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := ebml.Marshal(v, &b); err != nil {
		return nil, fmt.Errorf("write WebM: %w", err)
	}
	return b.Bytes(), nil
}
