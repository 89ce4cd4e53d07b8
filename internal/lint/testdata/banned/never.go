// want unchecked-file

//go:build never

package banned

func never() {
	go never() // want goroutine
}
