package secret

// automaton finds texts in a stream, as Aho and Corasick do.
type automaton struct {
	nodes []node
	// root is where each byte leads from the start, 0 for nowhere.
	root [256]int32
}

// node is one state: what was matched so far.
type node struct {
	next []edge
	// fail is the state of the longest other suffix of this one, depth its length.
	fail, depth int32
	// longest is the length of the longest pattern that ends here, 0 for none.
	longest int32
}

type edge struct {
	c  byte
	to int32
}

func newAutomaton(texts []string) *automaton {
	a := &automaton{nodes: make([]node, 1)}
	for _, t := range texts {
		a.add(t)
	}
	a.link()
	return a
}

func (a *automaton) add(text string) {
	at := int32(0)
	for i := range len(text) {
		to := a.nodes[at].edge(text[i])
		if to == 0 {
			to = int32(len(a.nodes))
			a.nodes = append(a.nodes, node{depth: int32(i) + 1})
			a.nodes[at].next = append(a.nodes[at].next, edge{text[i], to})
		}
		at = to
	}
	a.nodes[at].longest = int32(len(text))
}

// edge is where a byte leads, 0 for nowhere: no edge leads to the start.
func (n *node) edge(c byte) int32 {
	for _, e := range n.next {
		if e.c == c {
			return e.to
		}
	}
	return 0
}

// link finds the states to go on from where none matches further, breadth first.
func (a *automaton) link() {
	queue := []int32{}
	for _, e := range a.nodes[0].next {
		a.root[e.c] = e.to
		queue = append(queue, e.to)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range a.nodes[at].next {
			fail := a.step(a.nodes[at].fail, e.c)
			a.nodes[e.to].fail = fail
			a.nodes[e.to].longest = max(a.nodes[e.to].longest, a.nodes[fail].longest)
			queue = append(queue, e.to)
		}
	}
}

// step is the state behind one more byte.
func (a *automaton) step(at int32, c byte) int32 {
	for at != 0 {
		if to := a.nodes[at].edge(c); to != 0 {
			return to
		}
		at = a.nodes[at].fail
	}
	return a.root[c]
}
