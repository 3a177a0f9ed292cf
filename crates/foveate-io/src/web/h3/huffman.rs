//! The Huffman code of HTTP headers (RFC 7541, appendix B).
//!
//! The code is canonical, so the lengths define it: codes of one length follow each other in the order of their
//! symbols, and shorter ones come first.

/// Bits of each byte's code. The end-of-string symbol, which must not occur, also has 30.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
const LONGEST: usize = 30;

/// Number of codes of each length.
const COUNTS: [u32; LONGEST + 1] = {
    let mut counts = [0; LONGEST + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        counts[LENGTHS[symbol] as usize] += 1;
        symbol += 1;
    }
    counts
};

/// All bytes, ordered by the length of their code and then by value.
const ORDERED: [u8; 256] = {
    let (mut ordered, mut place, mut length) = ([0; 256], 0, 1);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                ordered[place] = symbol as u8;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    ordered
};

/// Decodes a string; `None` for invalid bits.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5);
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1)));
    // The bits so far, their number, the first code of that length, and how many codes are shorter.
    let (mut code, mut length, mut first, mut shorter) = (0, 0, 0, 0);
    for bit in bits {
        (code, length) = (code << 1 | bit, length + 1);
        if length > LONGEST {
            return None;
        }
        first <<= 1;
        let count = COUNTS[length];
        if code < first + count {
            text.push(ORDERED[(shorter + code - first) as usize]);
            (code, length, first, shorter) = (0, 0, 0, 0);
        } else {
            (first, shorter) = (first + count, shorter + count);
        }
    }
    // The rest of the last byte is filled with ones.
    (length < 8 && code + 1 == 1 << length).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // RFC 7541, C.4 and C.6.
        for (bytes, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf], "custom-value"),
            (&[0x64, 0x02], "302"),
            (&[], ""),
        ] {
            assert_eq!(decode(bytes).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn padding_that_is_long_or_not_all_ones_is_refused() {
        assert_eq!(decode(&[0x64, 0x02, 0xff]), None, "a byte of padding");
        assert_eq!(decode(&[0x64, 0x00]), Some(b"300".to_vec()), "no padding at all");
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbe]), None, "a zero at the end");
        assert_eq!(decode(&[0xff; 8]), None, "the end of a string within it");
    }

    #[test]
    fn the_code_is_complete() {
        // With the end-of-string symbol, the codes fill the tree.
        let filled: u64 = LENGTHS.iter().map(|length| 1 << (LONGEST - *length as usize)).sum();
        assert_eq!(filled + 1, 1 << LONGEST);
    }
}
