// Package catalog makes one list of tools out of those of all servers: it gives
// every tool the name that clients see, decides which ones they see, and knows
// which server and which original name a client's call is meant for.
//
// A tool goes to clients as its server wrote it, apart from its name, from nulls
// that strict clients choke on, and from the root of its inputSchema where that is
// something clients refuse.
//
// # Concurrency contract
//
// A [Catalog] is immutable and may be shared; views of it are made on first use
// and kept. The package starts no goroutine and does no I/O.
package catalog
