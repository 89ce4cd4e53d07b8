package eventlog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// Payloads, other than the objects in them, are written field after field: integers as varints (signed
// ones in zigzag form), text and bytes behind their length, lists behind their count.

// payloadKind returns the kind of p, which must not be nil.
func payloadKind(p Payload) (Kind, error) {
	absent := p == nil
	switch p := p.(type) {
	case *EpochStarted:
		absent = p == nil
	case *Upserted:
		absent = p == nil
	case *Deleted:
		absent = p == nil
	case *Tick:
		absent = p == nil
	case *Decision:
		absent = p == nil
	case *BindResult:
		absent = p == nil
	case *EvictResult:
		absent = p == nil
	case *ExtenderResult:
		absent = p == nil
	case *Watched:
		absent = p == nil
	case nil:
	default:
		return 0, fmt.Errorf("unknown payload type %T", p)
	}
	if absent {
		return 0, errors.New("no payload")
	}
	return p.Kind(), nil
}

// appendPayload appends p's encoding; p has passed payloadKind.
func appendPayload(dst []byte, p Payload) ([]byte, error) {
	w := payloadWriter{b: dst}
	switch p := p.(type) {
	case *EpochStarted:
		w.epochStarted(p)
	case *Upserted:
		w.upserted(p)
	case *Deleted:
		w.deleted(p)
	case *Tick:
	case *Decision:
		w.decision(p)
	case *BindResult:
		w.bindResult(p)
	case *EvictResult:
		w.evictResult(p)
	case *ExtenderResult:
		w.extenderResult(p)
	case *Watched:
		w.watched(p)
	}
	return w.b, w.err
}

// decodePayload is the inverse of appendPayload.
func decodePayload(kind Kind, b []byte, d *Decoder) (Payload, error) {
	var (
		p    Payload
		name string
	)
	// All text of a payload is cut from this one string.
	r := payloadReader{}
	if kind != KindUpserted {
		r.text = string(b)
	}
	switch kind {
	case KindEpochStarted:
		name, p = "epoch started", r.epochStarted()
	case KindUpserted:
		u, err := readUpserted(b, false, d)
		if err != nil {
			return nil, fmt.Errorf("upserted: %w", err)
		}
		return u, nil
	case KindDeleted:
		name, p = "deleted", r.deleted()
	case KindTick:
		name, p = "tick", &Tick{}
	case KindDecision:
		name, p = "decision", r.decision()
	case KindBindResult:
		name, p = "bind result", r.bindResult()
	case KindEvictResult:
		name, p = "evict result", r.evictResult()
	case KindExtenderResult:
		name, p = "extender result", r.extenderResult()
	case KindWatched:
		name, p = "watched", r.watched()
	default:
		return nil, fmt.Errorf("unknown kind %d at byte %d", kind, offsetKind)
	}
	if left := len(r.text) - r.at; r.err == nil && left > 0 {
		r.err = fmt.Errorf("%d bytes too many at byte %d", left, headerSize+r.at)
	}
	if r.err != nil {
		return nil, fmt.Errorf("%s: %w", name, r.err)
	}
	return p, nil
}

func (w *payloadWriter) epochStarted(p *EpochStarted) {
	w.str("id", p.ID)
	w.str("version", p.Version)
	w.uvarint(uint64(p.Format))
	w.uvarint(p.Seed)
	w.fail("config", checkConfig(p.Config))
	w.uvarint(uint64(len(p.Config)))
	w.b = append(w.b, p.Config...)
	w.uvarint(uint64(p.Behaviour))
}

func (r *payloadReader) epochStarted() *EpochStarted {
	p := &EpochStarted{ID: r.str("id"), Version: r.str("version")}
	format := r.uvarint("format")
	if format > math.MaxUint32 {
		r.fail("format", fmt.Errorf("%d exceeds 32 bits", format))
	}
	p.Format, p.Seed = uint32(format), r.uvarint("seed")
	if config := r.str("config"); config != "" {
		p.Config = []byte(config)
		r.fail("config", checkConfig(p.Config))
	}
	behaviour := r.uvarint("behaviour")
	if behaviour > math.MaxUint32 {
		r.fail("behaviour", fmt.Errorf("%d exceeds 32 bits", behaviour))
	}
	p.Behaviour = uint32(behaviour)
	return p
}

// checkConfig returns an error unless config is empty or compact JSON: no other text survives byte for byte as a part
// of a line of JSON.
func checkConfig(config []byte) error {
	if len(config) == 0 {
		return nil
	}
	if !utf8.Valid(config) {
		return errNotUTF8
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, config); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if !bytes.Equal(compact.Bytes(), config) {
		return errors.New("not compact JSON: it has white space between its tokens")
	}
	return nil
}

func (w *payloadWriter) deleted(p *Deleted) {
	w.resource(p.Resource)
	w.str("namespace", p.Namespace)
	w.str("name", p.Name)
	w.str("uid", string(p.UID))
}

func (r *payloadReader) deleted() *Deleted {
	return &Deleted{Resource: r.resource(), Namespace: r.str("namespace"), Name: r.str("name"), UID: r.uid("uid")}
}

func (w *payloadWriter) bindResult(p *BindResult) {
	w.str("uid", string(p.UID))
	w.str("node", p.Node)
	w.fail("outcome", checkBindOutcome(p.Outcome))
	w.b = append(w.b, byte(p.Outcome))
	w.str("message", strings.ToValidUTF8(p.Message, "\uFFFD"))
	w.fail(p.check())
	if p.Decision == 0 {
		return // the payload ends with the last field that is set
	}
	w.uvarint(p.Decision)
	if p.Plugin != "" {
		w.str("plugin", p.Plugin)
		w.str("code", p.Code)
	}
}

func (r *payloadReader) bindResult() *BindResult {
	p := &BindResult{UID: r.uid("uid"), Node: r.str("node"), Outcome: BindOutcome(r.byte("outcome"))}
	r.fail("outcome", checkBindOutcome(p.Outcome))
	p.Message = r.str("message")
	if r.err != nil || r.at == len(r.text) {
		return p
	}
	if p.Decision = r.uvarint("decision"); r.err == nil && p.Decision == 0 {
		r.fail("decision", errors.New("0 is left out"))
	}
	if r.err != nil || r.at == len(r.text) {
		return p
	}
	if p.Plugin, p.Code = r.str("plugin"), r.str("code"); r.err == nil && p.Plugin == "" {
		r.fail("plugin", errors.New("an empty one is left out"))
	}
	if r.err == nil {
		r.fail(p.check())
	}
	return p
}

func checkBindOutcome(o BindOutcome) error {
	if o < BindBound || o > BindUnknown {
		return fmt.Errorf("unknown bind outcome %d", o)
	}
	return nil
}

func (w *payloadWriter) evictResult(p *EvictResult) {
	w.fail(p.check())
	w.str("uid", string(p.UID))
	w.b = append(w.b, byte(p.Outcome))
	w.str("message", strings.ToValidUTF8(p.Message, "\uFFFD"))
	w.uvarint(p.Decision)
	if p.Outcome == EvictRefused {
		w.uvarint(uint64(p.RetryAfter))
	}
}

func (r *payloadReader) evictResult() *EvictResult {
	p := &EvictResult{UID: r.uid("uid"), Outcome: EvictOutcome(r.byte("outcome")), Message: r.str("message"),
		Decision: r.uvarint("decision")}
	if p.Outcome == EvictRefused {
		p.RetryAfter = time.Duration(r.uvarint("retry after"))
	}
	if r.err == nil {
		r.fail(p.check())
	}
	return p
}

// check returns the wrong field of an EvictResult and the reason; nil if none is wrong.
func (p *EvictResult) check() (field string, err error) {
	switch {
	case p.Outcome < EvictDone || p.Outcome > EvictWithdrawn:
		return "outcome", fmt.Errorf("unknown evict outcome %d", p.Outcome)
	case p.Decision == 0:
		return "decision", errors.New("0: an eviction is asked for by a decision")
	case p.Outcome == EvictRefused && p.RetryAfter <= 0:
		return "retry after", errors.New("no time: a refused eviction is tried again")
	case p.RetryAfter > MaxRetryAfter:
		return "retry after", fmt.Errorf("%v is longer than %v", p.RetryAfter, MaxRetryAfter)
	case p.Outcome != EvictRefused && p.RetryAfter != 0:
		return "retry after", fmt.Errorf("an eviction that is %s is not tried again", p.Outcome)
	}
	return "", nil
}

var errNotUTF8 = errors.New("not valid UTF-8")

// payloadWriter appends to b until the first error.
type payloadWriter struct {
	b   []byte
	err error
}

// fail keeps err, if there is one, as the field's; the first error stays.
func (w *payloadWriter) fail(field string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", field, err)
	}
}

func (w *payloadWriter) uvarint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *payloadWriter) varint(v int64)   { w.b = binary.AppendVarint(w.b, v) }

func (w *payloadWriter) str(field, s string) {
	if !utf8.ValidString(s) {
		w.fail(field, errNotUTF8)
	}
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *payloadWriter) resource(res Resource) {
	info := infoByResource[res]
	switch {
	case info != nil:
		w.b = append(w.b, info.code)
	case IsOwn(res):
		w.b = append(w.b, ownCode)
		w.str("resource", string(res))
	default:
		w.fail("resource", fmt.Errorf("unknown resource %q", res))
	}
}

// payloadReader cuts fields off text until the first error; after it every field is empty.
type payloadReader struct {
	text string
	at   int
	// list and index name the list element that is being read; list is "" outside of one.
	list  string
	index int
	err   error
}

// fail keeps err, if there is one, as the field's; the first error stays.
func (r *payloadReader) fail(field string, err error) {
	if r.err != nil || err == nil {
		return
	}
	if r.list != "" {
		element := fmt.Sprintf("%s[%d]", r.list, r.index)
		if field != "" {
			element += "."
		}
		field = element + field
	}
	r.err = fmt.Errorf("%s at byte %d: %w", field, headerSize+r.at, err)
}

func (r *payloadReader) byte(field string) byte {
	if r.err != nil {
		return 0
	}
	if r.at >= len(r.text) {
		r.fail(field, errors.New("record ends before it"))
		return 0
	}
	r.at++
	return r.text[r.at-1]
}

func (r *payloadReader) uvarint(field string) uint64 {
	if r.err != nil {
		return 0
	}
	var v uint64
	for i := 0; ; i++ {
		if r.at+i >= len(r.text) {
			r.fail(field, errors.New("record ends within a varint"))
			return 0
		}
		c := r.text[r.at+i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			r.fail(field, errors.New("varint exceeds 64 bits"))
			return 0
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				r.fail(field, errors.New("varint is longer than its value needs"))
				return 0
			}
			r.at += i + 1
			return v
		}
	}
}

func (r *payloadReader) varint(field string) int64 {
	u := r.uvarint(field)
	return int64(u>>1) ^ -int64(u&1)
}

// length reads a length, or a count of elements of at least size bytes each, which must fit the rest.
func (r *payloadReader) length(field string, size int) int {
	n := r.uvarint(field)
	if left := len(r.text) - r.at; r.err == nil && n > uint64(left/size) {
		r.fail(field, fmt.Errorf("length %d exceeds what the %d bytes left can hold", n, left))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *payloadReader) str(field string) string {
	n := r.length(field, 1)
	s := r.text[r.at : r.at+n]
	if !utf8.ValidString(s) {
		r.fail(field, errNotUTF8)
		return ""
	}
	r.at += n
	return s
}

// bytes is str for text that may be invalid UTF-8.
func (r *payloadReader) bytes(field string) string {
	n := r.length(field, 1)
	b := r.text[r.at : r.at+n]
	r.at += n
	return b
}

func (r *payloadReader) uid(field string) types.UID { return types.UID(r.str(field)) }

func (r *payloadReader) resource() Resource {
	code := r.byte("resource")
	if r.err != nil {
		return ""
	}
	if code == ownCode {
		return r.ownName()
	}
	info := infoByCode[code]
	if info == nil {
		r.fail("resource", fmt.Errorf("unknown resource number %d", code))
		return ""
	}
	return info.resource
}
