// Package catalog makes one list of tools out of those of all servers, and likewise
// of prompts, resources and templates: it gives every tool and prompt the name that
// clients see, decides which tools they see, and knows which server and which
// original name or URI a client's request is meant for.
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
