//! Reads the fields of a protocol-buffer message: as much as the models of SentencePiece need.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    Fixed64,
}

/// The fields of a message, by number, in their order.
pub(crate) fn fields(message: &[u8]) -> Result<Vec<(u64, Value<'_>)>, String> {
    let (mut rest, mut fields) = (message, Vec::new());
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Value::Fixed64)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).map_err(|_| CUT)?;
                Value::Bytes(take(&mut rest, length)?)
            }
            5 => {
                let bytes = take(&mut rest, 4)?;
                Value::Fixed32(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            other => return Err(format!("it has a field of the unknown type {other}")),
        };
        fields.push((key >> 3, value));
    }
    Ok(fields)
}

const CUT: &str = "it ends in the middle of a field";

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(length).ok_or(CUT)?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("it has a number of more than 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_damage_is_found() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f];
        let expected = [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed32(1.0f32.to_bits()))];
        assert_eq!(fields(&message).unwrap(), expected);
        for cut in 1..message.len() {
            let whole = matches!(cut, 3 | 7);
            assert_eq!(fields(&message[..cut]).is_ok(), whole, "{cut}");
        }
        assert!(fields(&[0x0b]).unwrap_err().contains("type 3"));
        assert!(fields(&[0xff; 11]).is_err());
    }
}
