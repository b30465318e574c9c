package main

import "os"

// nobodyReads cannot be told here before something is written.
func nobodyReads(*os.File) bool { return false }
