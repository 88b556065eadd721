package gtid_test

import (
	"fmt"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// The worked example of the package documentation: who can be promoted, what is missing, what is errant.
func Example() {
	const primary, replica = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "9c5d2a01-0b1c-11ef-8a52-02420a000002"
	a := gtid.MustParse(primary + ":1-105")
	b := gtid.MustParse(primary + ":1-108," + replica + ":1")

	uuid, err := gtid.ParseUUID(primary)
	if err != nil {
		fmt.Println(err)
		return
	}
	union := a.Restrict(uuid).Union(b.Restrict(uuid))
	fmt.Println("acknowledged at most:", union)
	fmt.Println("A holds it:", a.Contains(union), "- B holds it:", b.Contains(union))
	fmt.Println("A must fetch:", union.Subtract(a))
	fmt.Println("errant on B:", b.Subtract(a.Union(union)))

	former := gtid.MustParse(primary + ":1-110")
	fmt.Println("never acknowledged on the former primary:", former.Subtract(union))
	// Output:
	// acknowledged at most: 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-108
	// A holds it: false - B holds it: true
	// A must fetch: 3e11fa47-71ca-11e1-9e33-c80aa9429562:106-108
	// errant on B: 9c5d2a01-0b1c-11ef-8a52-02420a000002:1
	// never acknowledged on the former primary: 3e11fa47-71ca-11e1-9e33-c80aa9429562:109-110
}

func ExampleParse() {
	set, err := gtid.Parse("3E11FA4771CA11E19E33C80AA9429562 : 4-6 : 1-3 : OpTag : 2 : 1 ,")
	fmt.Println(set, err)
	_, err = gtid.Parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:0-3")
	fmt.Println(err)
	// Output:
	// 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-6:optag:1-2 <nil>
	// parse GTID set: at byte 37: found "0-3"; allowed here: a number from 1 to 9223372036854775806
}

func ExampleSet_Contains() {
	executed := gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100:optag:1-2")
	fmt.Println(executed.Contains(gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:50-60")))
	fmt.Println(executed.Contains(gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:optag:3")))
	// Output:
	// true
	// false
}
