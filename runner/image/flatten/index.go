package flatten

import "hash/maphash"

// index finds a record by directory and name. The seed is random, so a layer
// can't choose names that collide.
type index struct {
	seed  maphash.Seed
	heads []ID
	size  int
}

func (x *index) slot(dir ID, name []byte) *ID {
	h := maphash.Bytes(x.seed, name) ^ uint64(dir)*0x9e3779b97f4a7c15
	h ^= h >> 32
	return &x.heads[h&uint64(len(x.heads)-1)]
}

// find returns the record called name in dir, 0 when there is none.
func (t *Tree) find(dir ID, name []byte) ID {
	if len(t.idx.heads) == 0 {
		return 0
	}
	for id := *t.idx.slot(dir, name); id != 0; {
		n := t.at(id)
		if n.parent == dir && string(t.names.get(n.name)) == string(name) {
			return id
		}
		id = n.chain
	}
	return 0
}

// enter makes a record findable.
func (t *Tree) enter(id ID) {
	if t.idx.size >= len(t.idx.heads) {
		t.growIndex()
	}
	n := t.at(id)
	slot := t.idx.slot(n.parent, t.names.get(n.name))
	n.chain, *slot = *slot, id
	t.idx.size++
}

// leave undoes enter.
func (t *Tree) leave(id ID) {
	n := t.at(id)
	p := t.idx.slot(n.parent, t.names.get(n.name))
	for *p != id {
		p = &t.at(*p).chain
	}
	*p, n.chain = n.chain, 0
	t.idx.size--
}

func (t *Tree) growIndex() {
	old := t.idx.heads
	t.idx.heads = make([]ID, max(1024, 2*len(old)))
	for _, id := range old {
		for id != 0 {
			n := t.at(id)
			next := n.chain
			slot := t.idx.slot(n.parent, t.names.get(n.name))
			n.chain, *slot = *slot, id
			id = next
		}
	}
}
