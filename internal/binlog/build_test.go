package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	anUUID  = "2b6f347d-ed25-11f1-bd70-02fc00000001"
	another = "2b6e1faf-ed25-11f1-adb5-02fc00000001"
)

// Bodies of events as mysqld 9.7.4 wrote them.
const (
	// 2b6f347d-ed25-11f1-bd70-02fc00000001:6
	realGTID = "002b6f347ded2511f1bd7002fc00000001060000000000000002040000000000" +
		"0000060000000000000032630c598861868522fc58886106fc0c0150620100"
	// 2b6e1faf-ed25-11f1-adb5-02fc00000001:foo:1
	realTagged = "026e0000000256dc3ebd02b5034a22c503b502d50204f1030000000204040606666f6f08100a240c7f788b66598861061021041283120b"
	// The same with the number 9223372036854775806.
	realLast = "027e0000000256dc3ebd02b5034a22c503b502d50204f1030000000204fffcffffffffffffff0606666f6f08000a040c7f68cfc85a8861061041041283120b"
	realSet  = "01040000000000012b6e1fafed2511f1adb502fc00000001000100000000000000010000000000000004000000000000002b6e1fafed2511f1adb502fc" +
		"0000000106666f6f0100000000000000010000000000000002000000000000002b6f347ded2511f1bd7002fc0000000100010000000000000001000000" +
		"0000000008000000000000003e11fa4771ca11e19e33c80aa942956206626172010000000000000007000000000000000800000000000000"
	realSetText = another + ":1-3:foo:1," + anUUID + ":1-7,3e11fa47-71ca-11e1-9e33-c80aa9429562:bar:7"
)

// builder makes a binary log file.
type builder struct {
	bytes.Buffer
	// plain leaves checksums out.
	plain bool
}

func newFile() *builder {
	b := &builder{}
	b.Write(magic[:])
	return b
}

// event appends an event and returns where it begins.
func (b *builder) event(kind byte, flags uint16, body []byte) int64 {
	at := int64(b.Len())
	header := make([]byte, headerLength)
	header[4] = kind
	length := headerLength + len(body)
	sum := !b.plain || kind == typeFormatDescription
	if sum {
		length += checksumLength
	}
	binary.LittleEndian.PutUint32(header[9:], uint32(length))
	binary.LittleEndian.PutUint32(header[13:], uint32(b.Len()+length))
	binary.LittleEndian.PutUint16(header[flagsAt:], flags)
	whole := slices.Concat(header, body)
	b.Write(whole)
	if sum {
		if kind == typeFormatDescription {
			whole[flagsAt] &^= flagInUse
		}
		b.Write(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(whole)))
	}
	return at
}

func (b *builder) format(flags uint16) *builder {
	body := make([]byte, formatHeaderLengthAt, 128)
	body[0] = 4
	body = append(body, headerLength)
	body = append(body, make([]byte, 42)...)
	algorithm := byte(1)
	if b.plain {
		algorithm = 0
	}
	b.event(typeFormatDescription, flags, append(body, algorithm))
	return b
}

// previous appends the untagged set uuid:1-last.
func (b *builder) previous(uuid string, last uint64) *builder {
	body := binary.LittleEndian.AppendUint64(nil, 1)
	u, err := gtid.ParseUUID(uuid)
	if err != nil {
		panic(err)
	}
	body = append(body, u[:]...)
	for _, n := range []uint64{1, 1, last + 1} {
		body = binary.LittleEndian.AppendUint64(body, n)
	}
	b.event(typePreviousGTIDs, 0x80, body)
	return b
}

// transaction appends a GTID and two more events.
func (b *builder) transaction(uuid string, number uint64) int64 {
	u, err := gtid.ParseUUID(uuid)
	if err != nil {
		panic(err)
	}
	body := append([]byte{0}, u[:]...)
	body = binary.LittleEndian.AppendUint64(body, number)
	at := b.event(typeGTID, 0, append(body, 2, 0))
	b.event(2, 0, []byte("BEGIN"))
	b.event(16, 0, make([]byte, 8))
	return at
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	out, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
