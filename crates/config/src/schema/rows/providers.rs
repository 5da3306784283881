//! The providers' blocks.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{EFFORTS, MODEL_ID, TOKENS, UNSET, choice, row};
use crate::env;
use crate::providers::ProviderId;

const EFFORTS_ANTHROPIC: Kind = choice(&["low", "medium", "high", "xhigh", "max"]);
// Signing in with a subscription would mean posing as another vendor's client.
const KEY_ONLY: Kind = Kind::Choice {
    accepted: &["api_key"],
    retired: &[(
        "oauth",
        "this provider takes API keys only; use `api_key` and give the key",
    )],
};

/// One row of a provider's block.
macro_rules! block {
    ($id:ident $name:literal primary) => {
        row(concat!("fermix_core.providers.", $name, ".primary"), Kind::Flag, "false",
            "Ask this provider first. At most one block may say so; with none, the first configured one is asked.",
            |c, _, v| put(&mut c.providers.get_mut(ProviderId::$id).primary, v))
    };
    ($id:ident $name:literal default_model) => {
        row(concat!("fermix_core.providers.", $name, ".default_model"), MODEL_ID, UNSET,
            "The model that is asked unless another is named.",
            |c, _, v| put(&mut c.providers.get_mut(ProviderId::$id).default_model, v))
    };
    ($id:ident $name:literal api_key $variable:ident) => {
        row(concat!("fermix_core.providers.", $name, ".api_key"), Kind::Secret { item: env::$variable }, UNSET,
            "The provider's key: `@keyring` or `@file` once `fermix secrets set` has stored it. A key in plain text works with a warning until it is moved to a store.",
            |c, _, v| put(&mut c.providers.get_mut(ProviderId::$id).api_key, v)).or_variable(env::$variable)
    };
    ($id:ident $name:literal base_url) => {
        row(concat!("fermix_core.providers.", $name, ".base_url"), Kind::BaseUrl, UNSET,
            "Where requests go instead of the provider's own address.",
            |c, _, v| put(&mut c.providers.get_mut(ProviderId::$id).base_url, v))
    };
    ($id:ident $name:literal effort $kind:ident) => {
        row(concat!("fermix_core.providers.", $name, ".reasoning_effort"), $kind, UNSET,
            "How hard the model thinks; unset leaves it to the provider.",
            |c, _, v| put(&mut c.providers.get_mut(ProviderId::$id).reasoning_effort, v))
    };
    ($id:ident $name:literal auth_mode $variable:ident) => {
        row(concat!("fermix_core.providers.", $name, ".auth_mode"), KEY_ONLY, "\"api_key\"",
            "How to sign in. Only keys are taken.",
            |_, _, _| Ok(())).or_variable(env::$variable)
    };
}

pub(super) static ROWS: &[KeyDoc] = &[
    block!(OpenaiCodex "openai_codex" primary),
    block!(OpenaiCodex "openai_codex" default_model),
    block!(OpenaiCodex "openai_codex" effort EFFORTS),
    row(
        "fermix_core.providers.openai_codex.fast",
        Kind::Flag,
        "false",
        "Ask for faster service, which uses up the plan sooner.",
        |c, _, v| put(&mut c.providers.get_mut(ProviderId::OpenaiCodex).fast, v),
    ),
    block!(Openai "openai" primary),
    block!(Openai "openai" default_model),
    block!(Openai "openai" api_key OPENAI_API_KEY),
    row(
        "fermix_core.providers.openai.base_url",
        Kind::BaseUrl,
        UNSET,
        "Where requests go instead of OpenAI's own address. With one, requests are Chat Completions.",
        |c, _, v| put(&mut c.providers.get_mut(ProviderId::Openai).base_url, v),
    ),
    block!(Openai "openai" effort EFFORTS),
    block!(Anthropic "anthropic" primary),
    block!(Anthropic "anthropic" default_model),
    block!(Anthropic "anthropic" auth_mode FERMIX_ANTHROPIC_AUTH_MODE),
    block!(Anthropic "anthropic" api_key ANTHROPIC_API_KEY),
    block!(Anthropic "anthropic" base_url),
    block!(Anthropic "anthropic" effort EFFORTS_ANTHROPIC),
    block!(Xai "xai" primary),
    block!(Xai "xai" default_model),
    block!(Xai "xai" auth_mode FERMIX_XAI_AUTH_MODE),
    block!(Xai "xai" api_key XAI_API_KEY),
    block!(Xai "xai" base_url).or_variable(env::XAI_BASE_URL),
    block!(Xai "xai" effort EFFORTS),
    block!(Openrouter "openrouter" primary),
    block!(Openrouter "openrouter" default_model),
    block!(Openrouter "openrouter" api_key OPENROUTER_API_KEY),
    block!(Openrouter "openrouter" base_url),
    block!(Mistral "mistral" primary),
    block!(Mistral "mistral" default_model),
    block!(Mistral "mistral" api_key MISTRAL_API_KEY),
    block!(Mistral "mistral" base_url),
    block!(Ollama "ollama" primary),
    block!(Ollama "ollama" default_model),
    row(
        "fermix_core.providers.ollama.base_url",
        Kind::BaseUrl,
        UNSET,
        "Where the Ollama server listens. Its presence marks the provider as configured.",
        |c, _, v| put(&mut c.providers.get_mut(ProviderId::Ollama).base_url, v),
    )
    .or_variable(env::OLLAMA_BASE_URL),
    block!(OpenaiCompatible "openai_compatible" primary),
    block!(OpenaiCompatible "openai_compatible" default_model),
    block!(OpenaiCompatible "openai_compatible" api_key OPENAI_COMPATIBLE_API_KEY),
    row(
        "fermix_core.providers.openai_compatible.base_url",
        Kind::BaseUrl,
        UNSET,
        "Where the server listens, with the version part of the path.",
        |c, _, v| {
            put(
                &mut c.providers.get_mut(ProviderId::OpenaiCompatible).base_url,
                v,
            )
        },
    ),
    row(
        "fermix_core.providers.openai_compatible.context_window",
        TOKENS,
        UNSET,
        "The model's window in tokens.",
        |c, _, v| {
            put(
                &mut c
                    .providers
                    .get_mut(ProviderId::OpenaiCompatible)
                    .context_window,
                v,
            )
        },
    ),
    row(
        "fermix_core.providers.openai_compatible.vision",
        Kind::Flag,
        UNSET,
        "Whether the model takes images.",
        |c, _, v| {
            put(
                &mut c.providers.get_mut(ProviderId::OpenaiCompatible).vision,
                v,
            )
        },
    ),
    row(
        "fermix_core.providers.openai_compatible.tools",
        Kind::Flag,
        UNSET,
        "Whether the model can call tools.",
        |c, _, v| {
            put(
                &mut c.providers.get_mut(ProviderId::OpenaiCompatible).tools,
                v,
            )
        },
    ),
];
