//! Names that a person may have meant.

/// The name that somebody who wrote `name` may have meant, if one is near. Dotted names are compared as a whole and by
/// their last part.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names from elsewhere that no spelling distance would find.
    const SYNONYMS: [(&str, &str); 8] = [
        ("lr", "learning_rate"),
        ("batch_size", "batch"),
        ("layers", "blocks"),
        ("depth", "blocks"),
        ("optim", "optimizer"),
        ("lr_decay", "decay"),
        ("grad_clip", "clip"),
        ("temperature", "inverse_temperature"),
    ];
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let wanted = last(name);
    let wanted = SYNONYMS.iter().find(|(other, _)| *other == wanted).map_or(wanted, |(_, ours)| (*ours).to_owned());
    // Nobody meant anything by a name this long, and distances would take long.
    if name.len() > 100 {
        return None;
    }
    let distance = |candidate: &str| {
        let whole = strsim::damerau_levenshtein(name, candidate);
        whole.min(strsim::damerau_levenshtein(&wanted, &last(candidate)))
    };
    let near = names.into_iter().map(|candidate| (distance(candidate), candidate)).min()?;
    (near.0 <= wanted.chars().count().max(3) / 3).then_some(near.1)
}

/// The text, or its beginning if it is long, for messages.
pub(crate) fn shortened(text: &str) -> String {
    const MAX: usize = 100;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
