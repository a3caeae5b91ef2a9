package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// Seal encrypts what only a holder of the token may read. The store has nothing but the
// token's digest, so neither who reads the store nor another token opens it.
func (t Token) Seal(plain []byte) ([]byte, error) {
	aead, err := t.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, nil), nil
}

// Open decrypts what Seal made with the same token.
func (t Token) Open(sealed []byte) ([]byte, error) {
	aead, err := t.aead()
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("what was sealed is too short")
	}
	return aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], nil)
}

func (t Token) aead() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(t), nil, "quavon-sandbox/1 egress secrets", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
