//go:build mysql

package gtid

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// malformedSet is ER_MALFORMED_GTID_SET_SPECIFICATION.
const malformedSet = 1772

// seed is fixed so that a failure can be run again; change it to look further.
const seed = 20260131

// TestAgainstServer checks every claim of Parse and of the algebra against a real mysqld.
func TestAgainstServer(t *testing.T) {
	s := startServer(t)
	t.Run("accepts", s.accepts)
	t.Run("refuses", s.refuses)
	t.Run("is looser where it contradicts itself", s.looser)
	t.Run("judges damaged texts alike", s.damagedTexts)
	t.Run("algebra", s.algebra)
	t.Run("stores what String prints", s.stores)
}

func (s *server) accepts(t *testing.T) {
	for _, tc := range acceptedTexts {
		got, err := s.canonical(tc.text)
		if err != nil {
			t.Errorf("%s: the server refuses %q: %v", tc.name, tc.text, err)
		} else if got != tc.want {
			t.Errorf("%s: the server makes %q of %q, want %q", tc.name, got, tc.text, tc.want)
		}
	}
}

func (s *server) refuses(t *testing.T) {
	for _, tc := range refusedTexts {
		got, err := s.canonical(tc.text)
		if !isMalformed(err) {
			t.Errorf("%s: the server makes %q of %q, %v; want error %d", tc.name, got, tc.text, err, malformedSet)
		}
	}
}

// looser holds the reasons for which Parse is stricter: when this fails, they are gone and stricterTexts can be accepted.
func (s *server) looser(t *testing.T) {
	for _, tc := range stricterTexts {
		if got, err := s.canonical(tc.text); err != nil {
			t.Errorf("%s: the server refuses %q: %v; it belongs to refusedTexts", tc.name, tc.text, err)
		} else {
			t.Logf("%s: the server makes %q of %q", tc.name, got, tc.text)
		}
	}
	const text = uuidA + ":010"
	decimal, err := s.canonical(text)
	if err != nil {
		t.Fatal(err)
	}
	if octal := s.purge(t, text); decimal != uuidA+":10" || octal != uuidA+":8" {
		t.Errorf("%s is %q to the functions and %q to gtid_purged; want 10 and 8", text, decimal, octal)
	}
}

// purge makes text the server's gtid_purged and returns its gtid_executed.
func (s *server) purge(t *testing.T, text string) string {
	t.Helper()
	if _, err := s.db.ExecContext(s.ctx, "RESET BINARY LOGS AND GTIDS"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(s.ctx, "SET GLOBAL gtid_purged = ?", text); err != nil {
		t.Fatalf("SET gtid_purged = %q: %v", text, err)
	}
	var executed string
	if err := s.db.QueryRowContext(s.ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&executed); err != nil {
		t.Fatal(err)
	}
	return executed
}

// damagedTexts changes good texts at random places: whether a text is a set, and which, must be the server's opinion.
func (s *server) damagedTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 1))
	const alphabet = "0123456789abcdefABCDEF-:,{}_ \t\nxtzZ+;."
	accepted := 0
	const rounds = 4000
	for range rounds {
		text := []byte(randomText(random))
		for range 1 + random.IntN(3) {
			at, c := random.IntN(len(text)+1), alphabet[random.IntN(len(alphabet))]
			switch kind := random.IntN(3); {
			case kind == 0 || at == len(text):
				text = append(text[:at], append([]byte{c}, text[at:]...)...)
			case kind == 1:
				text[at] = c
			default:
				text = append(text[:at], text[at+1:]...)
			}
		}
		want, serverErr := s.canonical(string(text))
		if serverErr != nil && !isMalformed(serverErr) {
			t.Fatalf("%q: %v", text, serverErr)
		}
		set, err := Parse(string(text))
		if err != nil && strings.Contains(err.Error(), noLeadingZero) {
			continue
		}
		if (err == nil) != (serverErr == nil) || set.String() != want {
			t.Errorf("%q:\n   we read %q, %v\n   server  %q, %v", text, set, err, want, serverErr)
		}
		if serverErr == nil {
			accepted++
		}
	}
	// Without both kinds this would compare nothing.
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d damaged texts are accepted: the damage is not useful", accepted, rounds)
	}
}

func (s *server) algebra(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 2))
	subsets := 0
	const rounds = 3000
	for range rounds {
		xText, yText := randomText(random), randomText(random)
		if random.IntN(4) == 0 {
			yText += "," + xText // else one set hardly ever contains the other
		}
		var minus, union, both string
		var subset, superset bool
		err := s.db.QueryRowContext(s.ctx, `SELECT GTID_SUBTRACT(a, b), GTID_SUBTRACT(CONCAT(a, ',', b), ''),
			GTID_SUBTRACT(a, GTID_SUBTRACT(a, b)), GTID_SUBSET(a, b), GTID_SUBSET(b, a)
			FROM (SELECT ? AS a, ? AS b) AS t`, xText, yText).Scan(&minus, &union, &both, &subset, &superset)
		if err != nil {
			t.Fatalf("x=%q y=%q: %v", xText, yText, err)
		}
		x, y := MustParse(xText), MustParse(yText)
		for _, got := range []struct{ name, ours, server string }{
			{"subtract", x.Subtract(y).String(), oneLine(minus)},
			{"union", x.Union(y).String(), oneLine(union)},
			{"intersect", x.Intersect(y).String(), oneLine(both)},
			{"subset", fmt.Sprint(y.Contains(x)), fmt.Sprint(subset)},
			{"superset", fmt.Sprint(x.Contains(y)), fmt.Sprint(superset)},
			{"equal", fmt.Sprint(x.Equal(y)), fmt.Sprint(subset && superset)},
		} {
			if got.ours != got.server {
				t.Errorf("%s: x=%q y=%q:\n   ours   %s\n   server %s", got.name, xText, yText, got.ours, got.server)
			}
		}
		if subset {
			subsets++
		}
	}
	if subsets < rounds/10 || subsets > rounds*9/10 {
		t.Errorf("%d of %d pairs are subsets: the pairs are not useful", subsets, rounds)
	}
}

// stores: sets go to the server not only into functions but also into gtid_purged, which has a parser of its own.
func (s *server) stores(t *testing.T) {
	random := rand.New(rand.NewPCG(seed, 3))
	for range 50 {
		set := MustParse(randomText(random))
		executed := s.purge(t, set.String())
		if read, err := Parse(executed); err != nil || !read.Equal(set) || oneLine(executed) != set.String() {
			t.Errorf("%q is stored as %q, which reads as %q, %v", set, executed, read, err)
		}
	}
}

// canonical returns what the server makes of a text, on one line.
func (s *server) canonical(text string) (string, error) {
	var out sql.NullString
	err := s.db.QueryRowContext(s.ctx, "SELECT GTID_SUBTRACT(?, '')", text).Scan(&out)
	return oneLine(out.String), err
}

func isMalformed(err error) bool {
	var serverError *mysql.MySQLError
	return errors.As(err, &serverError) && serverError.Number == malformedSet
}

// oneLine undoes the one difference between the server's form and String's.
func oneLine(s string) string {
	return strings.ReplaceAll(s, ",\n", ",")
}

// randomText writes a set the way people and tools do: out of order, overlapping, in every accepted form.
func randomText(random *rand.Rand) string {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	space := func() string {
		if random.IntN(8) > 0 {
			return ""
		}
		return pick(" ", "\n", "\t ", "\r\n")
	}
	var text strings.Builder
	for range random.IntN(4) {
		uuid := pick(uuidA, uuidA, uuidA[:35]+"3", uuidB)
		text.WriteString(space() + pick(uuid, uuid, strings.ToUpper(uuid), strings.ReplaceAll(uuid, "-", ""), "{"+uuid+"}"))
		for range random.IntN(6) {
			text.WriteString(space() + ":" + space())
			first := 1 + random.Int64N(30)
			switch random.IntN(6) {
			case 0:
				text.WriteString(pick("a", "b", "A", "a_1", "_", strings.Repeat("t", MaxTag)))
			case 1:
				fmt.Fprint(&text, first)
			case 2:
				fmt.Fprintf(&text, "%d-%d", MaxNumber-first, MaxNumber-random.Int64N(30))
			default:
				fmt.Fprintf(&text, "%d%s-%s%d", first, space(), space(), max(first-2+random.Int64N(12), 0))
			}
		}
		text.WriteString(space() + pick(",", ",", ",,", ", "))
	}
	return text.String()
}

type server struct {
	ctx context.Context
	db  *sql.DB
}

// startServer runs a mysqld for this test alone; it is gone with its data when the test ends.
func startServer(t *testing.T) *server {
	bin := os.Getenv("PORPOISE_MYSQL_BIN")
	if _, err := os.Stat(bin + "/mysqld"); bin == "" || err != nil {
		t.Fatalf("PORPOISE_MYSQL_BIN=%q must name a directory with mysqld 9.7: `make deps` provides it and "+
			"`make test-mysql` sets it", bin)
	}
	instance := runMysqld(t, bin+"/mysqld")
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "unix", instance.socket, "root"
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	instance.awaitReady(t, db)
	return &server{ctx: t.Context(), db: db}
}
