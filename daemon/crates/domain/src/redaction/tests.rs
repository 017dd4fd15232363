//! Tests redaction as a whole. Planted secrets are removed, code is kept, JSON keeps its shape, and time stays
//! linear.

use proptest::prelude::*;

use super::*;
use crate::event::{Audience, StartContext, StartSource, Subagent};
use crate::ids::{PromptId, SessionId};
use crate::material::BatchSource;

fn redactor() -> Redactor {
    Redactor::new(&RedactionPolicy::default()).unwrap()
}

/// Expands a template such as `ghp_{a36}` with pseudo-random characters. So the source contains no token.
fn planted(template: &str, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |alphabet: &[u8]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, spec)) = rest.split_once('{') {
        let (spec, after) = spec.split_once('}').unwrap();
        let alphabet: &[u8] = match &spec[..1] {
            "a" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "h" => b"0123456789abcdef",
            "b" => b"abcdefghijklmnopqrstuvwxyz234567",
            "u" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            "l" => b"abcdefghijklmnopqrstuvwxyz0123456789",
            "d" => b"0123456789",
            other => panic!("no alphabet {other}"),
        };
        out.push_str(before);
        (0..spec[1..].parse::<usize>().unwrap()).for_each(|_| out.push(draw(alphabet)));
        rest = after;
    }
    out + rest
}

/// The kind and template of each secret.
const PLANTED: &[(&str, &str)] = &[
    ("github-token", "ghp_{a36}"),
    ("github-token", "gho_{a36}"),
    ("github-token", "ghs_{a36}"),
    ("github-token", "github_pat_{a22}_{a59}"),
    ("gitlab-token", "glpat-{a20}"),
    ("gitlab-token", "glrt-{a20}"),
    ("bitbucket-token", "ATBB{a32}"),
    ("atlassian-token", "ATATT3{a180}={u8}"),
    ("npm-token", "npm_{a36}"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc{a70}"),
    ("rubygems-token", "rubygems_{h48}"),
    ("crates-io-token", "cio{a32}"),
    ("clojars-token", "CLOJARS_{l60}"),
    ("docker-token", "dckr_pat_{a27}"),
    ("artifactory-token", "AKCp{a69}"),
    ("artifactory-token", "cmVmdGtu{a56}"),
    ("aws-access-key", "AKIA{u16}"),
    ("aws-access-key", "ASIA{u16}"),
    ("google-api-key", "AIza{a35}"),
    ("google-oauth-secret", "GOCSPX-{a28}"),
    ("google-oauth-token", "ya29.{a60}"),
    ("google-oauth-token", "1//0{a60}"),
    ("azure-storage-key", "AccountKey={a86}=="),
    ("azure-client-secret", "{a3}8Q~{a34}"),
    ("azure-sas-signature", "sig={a43}%3D"),
    ("alibaba-access-key", "LTAI{a20}"),
    ("digitalocean-token", "dop_v1_{h64}"),
    ("heroku-key", "HRKU-AA{a58}"),
    ("fly-token", "fo1_{a43}"),
    ("netlify-token", "nfp_{a36}"),
    ("vercel-token", "vercel_blob_rw_{a16}_{a30}"),
    ("supabase-key", "sbp_{h40}"),
    ("planetscale-token", "pscale_tkn_{a43}"),
    ("databricks-token", "dapi{h32}"),
    ("tailscale-key", "tskey-auth-{a16}-{a32}"),
    ("pulumi-token", "pul-{h40}"),
    ("vault-token", "hvs.{a90}"),
    ("terraform-token", "{a14}.atlasv1.{a67}"),
    ("doppler-token", "dp.pt.{a43}"),
    ("onepassword-token", "ops_eyJ{a260}"),
    ("age-key", "AGE-SECRET-KEY-1{u58}"),
    ("dynatrace-token", "dt0c01.{u24}.{u64}"),
    ("new-relic-key", "NRAK-{u27}"),
    ("grafana-token", "glsa_{a32}_{h8}"),
    ("grafana-token", "glc_{a80}"),
    ("sentry-token", "sntryu_{h64}"),
    ("buildkite-token", "bkua_{h40}"),
    ("prefect-token", "pnu_{l36}"),
    ("anthropic-key", "sk-ant-api03-{a93}AA"),
    ("openrouter-key", "sk-or-v1-{h64}"),
    ("openai-key", "sk-proj-{a74}T3BlbkFJ{a74}"),
    ("openai-key", "sk-{a20}T3BlbkFJ{a20}"),
    ("huggingface-token", "hf_{a34}"),
    ("groq-key", "gsk_{a52}"),
    ("xai-key", "xai-{a80}"),
    ("perplexity-key", "pplx-{a48}"),
    ("replicate-token", "r8_{a37}"),
    ("nvidia-key", "nvapi-{a64}"),
    ("tavily-key", "tvly-dev-{a32}"),
    ("langsmith-key", "lsv2_pt_{h32}_{h10}"),
    ("google-api-key", "AQ.Ab8{a47}"),
    ("aws-bedrock-key", "ABSK{a128}"),
    ("mem0-key", "m0-{a40}"),
    ("byterover-key", "brv_{a40}"),
    ("retaindb-key", "retaindb_{a32}"),
    ("zuplo-key", "zpka_{a32}_{h8}"),
    ("unkey-key", "unkey_{a22}"),
    ("modal-token", "ak-{a22}"),
    ("modal-token", "as-{a22}"),
    ("supermemory-key", "sm_{a22}_{a50}"),
    ("context7-key", "ctx7sk-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("fireworks-key", "fw_{a24}"),
    ("cerebras-key", "csk-{l48}"),
    ("firecrawl-key", "fc-{h32}"),
    ("vercel-token", "vck_{a56}"),
    ("langfuse-key", "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("elevenlabs-key", "sk_{h48}"),
    ("neon-key", "napi_{l64}"),
    ("cursor-key", "key_{h64}"),
    ("voyage-key", "pa-{a43}"),
    ("jina-key", "jina_{a60}"),
    ("together-key", "tgp_v1_{a43}"),
    ("e2b-key", "e2b_{h40}"),
    ("pinecone-key", "pcsk_{a6}_{a63}"),
    ("apify-token", "apify_api_{a36}"),
    ("browserbase-key", "bb_live_{a27}"),
    ("nomic-key", "nk-{a43}"),
    ("helicone-key", "sk-helicone-{l7}-{l7}-{l7}-{l7}"),
    ("letta-key", "sk-let-{a96}"),
    ("wandb-key", "wandb_v1_{a60}"),
    ("render-key", "rnd_{a28}"),
    ("scalingo-token", "tk-us-{a48}"),
    ("openshift-token", "sha256~{a43}"),
    ("polar-token", "polar_oat_{a40}"),
    ("inngest-key", "signkey-prod-{h64}"),
    ("trigger-key", "tr_prod_{a24}"),
    ("xata-key", "xau_{a44}"),
    ("dbt-token", "dbtu_{a40}"),
    ("clickhouse-key", "4b1d{a38}"),
    ("yandex-token", "t1.9eu{a200}.{a86}"),
    ("gitlab-token", "GR1348941{a20}"),
    ("gitlab-token", "glrtr-{a20}"),
    ("stripe-key", "sk_prod_{a24}"),
    ("zapier-key", "sk-ak-{a24}"),
    ("cal-key", "cal_live_{h32}"),
    ("settlemint-token", "sm_pat_{a16}"),
    ("intra-secret", "s-s4t2ud-{h64}"),
    ("grafana-token", "eyJrIjoi{a96}"),
    ("stripe-key", "sk_live_{a24}"),
    ("stripe-key", "rk_test_{a24}"),
    ("stripe-webhook-secret", "whsec_{a32}"),
    ("square-token", "sq0atp-{a22}"),
    ("shopify-token", "shpat_{h32}"),
    ("shippo-token", "shippo_live_{h40}"),
    ("easypost-key", "EZAK{a54}"),
    ("duffel-token", "duffel_test_{a43}"),
    ("plaid-token", "access-sandbox-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("slack-token", "xoxb-{d12}-{d12}-{a24}"),
    ("slack-token", "xapp-1-{u11}-{d13}-{h64}"),
    ("slack-webhook", "hooks.slack.com/services/T{u8}/B{u10}/{a24}"),
    ("discord-webhook", "discord.com/api/webhooks/{d18}/{a68}"),
    ("telegram-token", "{d10}:AA{a33}"),
    ("sendgrid-key", "SG.{a22}.{a43}"),
    ("mailgun-key", "key-{h32}"),
    ("brevo-key", "xkeysib-{h64}-{a16}"),
    ("linear-key", "lin_api_{a40}"),
    ("notion-token", "ntn_{a46}"),
    ("notion-token", "secret_{a43}"),
    ("figma-token", "figd_{a40}"),
    ("postman-key", "PMAK-{h24}-{h34}"),
    ("contentful-token", "CFPAT-{a43}"),
    ("typeform-token", "tfp_{a44}_{a14}"),
    ("readme-key", "rdme_{l70}"),
    ("circleci-token", "CCIPAT_{a22}_{h40}"),
    ("airtable-token", "pat{a14}.{h64}"),
    ("square-token", "EAAA{a60}"),
    ("twilio-key", "SK{h32}"),
    ("vault-token", "s.{a24}"),
    ("discord-token", "MTk4{a21}.Cl{a4}.{a27}"),
    ("azure-devops-token", "{b52}"),
    ("azure-devops-token", "{a76}AZDO{a4}"),
    ("ngrok-token", "2{a26}_{a21}"),
    ("posthog-key", "phx_{a43}"),
    ("sonar-token", "squ_{h40}"),
    ("snyk-token", "snyk_uat.{h8}.{a60}"),
    ("hubspot-token", "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("mapbox-token", "sk.eyJ{a60}.{a22}"),
    ("scaleway-key", "SCW{u17}"),
    ("razorpay-key", "rzp_live_{a14}"),
    ("flutterwave-key", "FLWSECK_TEST-{h32}-X"),
    ("braintree-token", "access_token$production${l16}${h32}"),
    ("facebook-token", "EAAM{a90}"),
    ("octopus-key", "API-{u26}"),
    ("launchdarkly-key", "sdk-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("sourcegraph-token", "sgp_{h16}_{h40}"),
    ("nuget-key", "oy2{l43}"),
    ("infracost-key", "ico-{a32}"),
    ("defined-key", "dnkey-{l26}-{l52}"),
    ("harness-key", "pat.{a22}.{h24}.{a20}"),
    ("kubernetes-token", "K10{h64}::server:{h32}"),
    ("cloudflare-token", "cfut_{a40}"),
    ("cloudflare-origin-key", "v1.0-{h24}-{h146}"),
    ("yandex-key", "AQVN{a36}"),
    ("adobe-secret", "p8e-{a32}"),
    ("dropbox-token", "sl.u.{a140}"),
    ("frameio-token", "fio-u-{a64}"),
    ("artifactory-token", "jfrog_{a44}"),
    ("datadog-key", "ddapp_{a34}"),
    ("elastic-key", "essu_{a60}"),
    ("clickup-token", "pk_{d8}_{u32}"),
    ("ubidots-key", "BBFF-{a30}"),
    ("mailchimp-key", "{h32}-us12"),
    ("teams-webhook", ".webhook.office.com/webhookb2/{h36}@{h36}/IncomingWebhook/{h32}"),
    ("brevo-key", "xsmtpsib-{h64}-{a16}"),
    ("resend-key", "re_{a8}_{a24}"),
    ("private-key", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS{a90}"),
    ("jwt", "eyJ{a30}.eyJ{a80}.{a43}"),
    ("private-key", "-----BEGIN RSA PRIVATE KEY-----\n{a64}\n{a64}\n{a20}==\n-----END RSA PRIVATE KEY-----"),
    ("private-key", "-----BEGIN OPENSSH PRIVATE KEY-----\n{a70}\n{a70}\n-----END OPENSSH PRIVATE KEY-----"),
    (
        "private-key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{a64}\n{a64}\n={a4}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    ("private-key", "Private-Lines: 2\n{a64}\n{a64}"),
];

/// Contexts in which agents report a secret. `§` stands for the secret.
const SURROUNDINGS: &[&str] = &[
    "§",
    "found §, and more",
    "\"§\"",
    "{\"a\": \"§\"}",
    "X='§'\n",
    "<v>§</v>",
    "+§\n",
    "-§\n",
    "a\\n§\\nb",
    "(§)",
    "é§é",
    "https://h.test/?a=§&b=1",
    "\u{1b}[31m§\u{1b}[0m",
    "\\u001b[31m§\\u001b[0m",
    "\\x1b[1;31m§",
    "tool -p§ x",
    "_§",
    "a-§",
    "2026-01-02T03:04:05Z INFO using § for it",
    "curl -H 'X-Key: §' https://h.test",
];

#[test]
fn planted_secrets_of_every_kind_are_redacted() {
    let redactor = redactor();
    let (mut tried, mut missed) = (0, Vec::new());
    for (seed, (kind, template)) in PLANTED.iter().enumerate() {
        let secret = planted(template, seed as u64);
        assert_eq!(redactor.redact_text(&secret), mark(kind), "{template}");
        for surrounding in SURROUNDINGS {
            tried += 2;
            let text = surrounding.replace('§', &secret);
            let redacted = redactor.redact_text(&text);
            if redacted.contains(&secret) || !redacted.contains(&mark(kind)) {
                missed.push(format!("{template} in {surrounding}: {redacted}"));
            }
            let json = serde_json::json!({ "stdout": text, "n": [1, null] }).to_string();
            let redacted = redactor.redact_json(&json);
            let value: serde_json::Value = serde_json::from_str(&redacted).unwrap();
            if !value["stdout"].as_str().unwrap().contains(&mark(kind)) {
                missed.push(format!("{template} in {surrounding}, as JSON: {redacted}"));
            }
        }
    }
    // Some contexts are ambiguous: `é8Q~` might be the middle of a word.
    assert!(missed.len() * 50 <= tried, "{} of {tried} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Formats with a short literal, which may also be the end of a word.
const FIXED_TAILS: &[(&str, &str)] = &[
    ("npm-token", "npm_{a36}"),
    ("huggingface-token", "hf_{a34}"),
    ("twilio-key", "SK{h32}"),
    ("airtable-token", "pat{a14}.{h64}"),
    ("sendgrid-key", "SG.{a22}.{a43}"),
    ("openai-key", "sk-{a48}"),
    ("pulumi-token", "pul-{h40}"),
    ("cloudflare-origin-key", "v1.0-{h24}-{h146}"),
    ("mailgun-key", "key-{h32}"),
    ("dropbox-token", "sl.u.{a140}"),
    ("dropbox-token", "sl.{a140}"),
    ("terraform-token", "{a14}.atlasv1.{a67}"),
    ("azure-client-secret", "{a3}8Q~{a34}"),
    ("replicate-token", "r8_{a37}"),
    ("xai-key", "xai-{a80}"),
];

#[test]
fn a_token_directly_after_a_letter_is_redacted() {
    let redactor = redactor();
    let mut missed = Vec::new();
    for (kind, template) in FIXED_TAILS {
        for seed in 0..20 {
            let secret = planted(template, seed);
            for before in ["x", "token", "7", "a\\n", "a\\t", "\\x1b[31m", "\u{1b}[0m", "mm", "-x", "é"] {
                let text = format!("{before}{secret} y");
                if redactor.redact_text(&text) != format!("{before}{} y", mark(kind)) {
                    missed.push(format!("{text:?}: {}", redactor.redact_text(&text)));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Secrets that only a name or a position reveals. Each is a template with its texts: prose, an assignment, JSON, a
/// command, a log line.
const PLACED: &[(&str, &[&str])] = &[
    (
        "hunter2hunter2",
        &[
            "my password=§ works",
            "use password=§, user=me",
            "the password is §",
            "The password for the staging database is §.",
            "set the password to § and go on",
            "2026-01-02 INFO login user=me password=§ ok",
            "password: §",
            "{\"user\": \"me\", \"password\": \"§\"}",
            "db:\n  password: §\n  host: h\n",
            "password = §\n",
            "tool --password § x",
            "my pw: §",
        ],
    ),
    (
        "swordfish",
        &[
            "db:\n  password: §\n",
            "spring.datasource.password=§\n",
            "- password: § # old\n",
            "PGPASSWORD=§ psql",
            "the password is §.",
        ],
    ),
    (
        "f00df00df00df00d",
        &[
            "secret = \"§\"",
            "\"secret\": \"§\"",
            "secret: §\n",
            "let secret = '§';",
            "INFO secret=§ read",
            "the secret is §",
        ],
    ),
    (
        "hunter2x",
        &[
            "curl -u admin:§ https://h.test",
            "run `curl -s -u 'admin:§' https://h.test` first",
            "{\"cmd\": \"curl --user admin:§ h\"}",
            "+ curl -uadmin:§ h",
            "CMD='curl --user=admin:§ h'",
        ],
    ),
    (
        "hunter2x",
        &[
            "mysql -u root -p§ shop",
            "2026 INFO run mysqldump -h db -p§ shop",
            "{\"cmd\": \"mysql -p§\"}",
            "call `mariadb -uroot -p§ x`",
            "CMD=\"mysqladmin -p§ ping\"",
        ],
    ),
    (
        "hunter2x",
        &[
            "sshpass -p § ssh a@b",
            "sshpass -p§ ssh a@b",
            "{\"cmd\": \"sshpass -p '§' scp a b\"}",
            "use `sshpass -p § ssh a@b` here",
            "+ sshpass -p \"§\" rsync a b",
        ],
    ),
    (
        "swordfish",
        &[
            "machine h.test login me password §\n",
            "machine h.test\n  login me\n  password §\n",
            "default login me password §",
            "{\"text\": \"machine h.test login me password §\"}",
            "echo 'machine h.test login me password §' >> x",
        ],
    ),
    (
        "django-insecure-x2$v(k9!m&3=q@z*5^w-r+7j#8h_t1",
        &[
            "SECRET_KEY = '§'\n",
            "SECRET_KEY = \"§\"  # settings.py",
            "{\"SECRET_KEY\": \"§\"}",
            "export SECRET_KEY='§'",
            "INFO SECRET_KEY: '§'",
        ],
    ),
    (
        "p@ss/w0rd",
        &[
            "postgres://app:§@db.test:5432/shop",
            "DATABASE_URL=postgres://app:§@db/shop",
            "{\"url\": \"mysql://app:§@db.test/shop\"}",
            "psql postgresql://app:§@localhost/shop",
            "INFO connecting to amqp://app:§@mq.test:5672",
            "see redis://app:§@cache for it",
        ],
    ),
    (
        "YXBwOmh1bnRlcjJ4eXo=",
        &[
            "{\"auths\": {\"r.test\": {\"auth\": \"§\"}}}",
            "_auth=§\n",
            "//r.test/:_auth=§\n",
            "auth: §\n",
            "INFO auth=§",
            "Authorization: Basic §",
        ],
    ),
    (
        "{a36}",
        &[
            "//r.test/:_authToken=§\n",
            "npm config set //r.test/:_authToken §",
            "{\"_authToken\": \"§\"}",
            "AZURE_DEVOPS_EXT_PAT=§\n",
            "ngrok authtoken: §\n",
            "NGROK_AUTHTOKEN=§ ngrok http 80",
            "my token is §",
        ],
    ),
    (
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ{a60}",
        &[
            "    client-key-data: §\n",
            "{\"client-key-data\": \"§\"}",
            "client-key-data=§",
            "kubectl config set users.a.client-key-data §",
            "the key is §",
        ],
    ),
    (
        "{h32}",
        &[
            "Cookie: theme=dark; sessionid=§; lang=en",
            "Set-Cookie: sid=§; Path=/; HttpOnly",
            "curl -H 'Cookie: JSESSIONID=§' h",
            "curl -b 'PHPSESSID=§' h",
            "{\"cookie\": \"connect.sid=§; a=b\"}",
            "DEBUG set-cookie: laravel_session=§; path=/",
        ],
    ),
    (
        "{a32}",
        &[
            "https://h.test/maps?key=§",
            "curl 'https://h.test/a?b=1&key=§'",
            "{\"url\": \"https://h.test/callback?code=§&state=x\"}",
            "GET /callback?state=x&code=§ HTTP/1.1",
            "see https://h.test/o?X-Amz-Algorithm=AWS4&X-Amz-Signature=§ for it",
            "URL=\"https://h.test/o?X-Goog-Signature=§\"",
        ],
    ),
    (
        "wJalrXUtnFEMI7K7MDENGbPxRfiCY2Zq9LkE7s3x",
        &[
            "AKIAQWERTYUIOPASDFGH\n§\n",
            "AKIAQWERTYUIOPASDFGH,§",
            "use AKIAQWERTYUIOPASDFGH with § please",
            "{\"id\": \"AKIAQWERTYUIOPASDFGH\", \"s\": \"§\"}",
            "aws configure AKIAQWERTYUIOPASDFGH § eu-west-1",
            "INFO AKIAQWERTYUIOPASDFGH / §",
        ],
    ),
    (
        "a8Kd93jfLs02mQpz71XcV5uT9w",
        &[
            "X = \"§\"",
            "DEPLOY=§\n",
            "{\"deploy\": \"§\"}",
            "export DEPLOY='§'",
            "deploy: §\n",
            "INFO deploy=§ read",
        ],
    ),
    (
        "{h40}",
        &[
            "ALGOLIA_ADMIN_KEY=§\n",
            "admin_key: \"§\"",
            "{\"admin_key\": \"§\"}",
            "export ADMIN_KEY=§",
            "INFO admin_key=§",
        ],
    ),
];

/// Sentences and commands in which secrets were once missed. Each secret stands between `§`.
const REVEALED: &[&str] = &[
    // A dot or a full stop in the value.
    "my password=§hunter2hunter2§.",
    "pw=§hunter2hunter2§.",
    "password=§Tr0ub.4dor9§",
    "I used password=§Okapi55mouse§. Done.",
    "secret=§hunter2hunter2§; foo",
    // Only letters.
    "password=§FBLbklMUuHnaqgmiXcvQWEpoRTzu§",
    "Authorization: Bearer §RuSPPwkVqLmBBnTxYzHHdfGkWQrs§",
    "api_key = \"§FBLbklMUuHnaqgmiXcvQWEpoRTzu§\"",
    // Sentences.
    "pass: §s3cr3tPassw0rd§",
    "pass=§s3cr3tPassw0rd§ x",
    "pass is §s3cr3tPassw0rd§",
    "log in with password §hunter2hunter2§",
    "with password §c0rrectH0rse§ and go",
    "use password \"§Quot3dPw12§\"",
    "password (§hunter2hunter2§)",
    "password → §Arr0wSecret9§",
    "password was changed to §N3wSecret42§",
    "api key is §9f8e7d6c5b4a3928§",
    "the password is §swordfish§ so use that",
    "the API key is §AXDNxril3RavGD5MfvJ7NScUykT8C8UBkkpdhiG37LeXSyYV4g6snRoUYA4fXr==§",
    "the password is §DNxril3RavGD5MfvJ7NS==§",
    "credentials: admin/§S3cr3tWord9§",
    "the password is §Tr0ub4dor&3xyz§",
    "password: §correcthorse§\n",
    "my password=§correct-horse-battery-staple§",
    // Words that can only be the secret, because of the structure.
    "{\"password\":\"§swordfish§\"}",
    "{\\\"password\\\":\\\"§swordfish§\\\"}",
    "{'password': '§swordfish§'}",
    "password => \"§swordfish§\"",
    "db_password = \"§swordfish§\"",
    "<password>§swordfish§</password>",
    "<add key=\"ApiSecret\" value=\"§swordfish§\">",
    "ENV DB_PASSWORD §swordfish§",
    "2026-01-02 INFO login password=§swordfish§ ok",
    "SECRET_KEY = '§76dEk2lq9va(=!9AW7xPz5mNr3Tq8sLd4§'",
    "client_secret: >-\n  §a8Kd93jfLs02mQpz71Xc§\n",
    "DEPLOY_HASH=§a8Kd93jfLs02mQpz71XcV5uT9wBq4Rn6Ye8Gh2Jk1Lm3§\n",
    // Commands.
    "curl -sSu admin:§swordfish§ https://h.test",
    "curl -fsSLu 'admin:§swordfish§' https://h.test",
    "curl -u admin:\"§two swordfish§\" https://h.test",
    "htpasswd -b .users me §swordfish§",
    "htpasswd -nbB me '§swordfish§'",
    "mariadb -u root -p §hunter2x§",
    "mysql -p §hunter2x§ shop",
    "mysqldump -h db -uroot -p'§swordfish§' shop > a.sql",
    "mysqldump --password=§swordfish§ shop",
    "psql 'postgresql://app:§swordfish§@db.test/shop?sslmode=require'",
    "psql postgres://app:§swordfish§@db.test:5432/shop -c 'select 1'",
    "wget --user me --password §swordfish§ https://h.test",
    "wget --http-password=§swordfish§ https://h.test",
    "kubectl create secret generic db --from-literal=password=§swordfish§ -n x",
    "kubectl create secret generic db --from-literal user=x --from-literal 'db=§swordfish§'",
    "vault kv put secret/app user=x db=§swordfish§",
    "vault kv put -mount=kv app pin='§48213377§'",
    "helm upgrade --install db chart --set auth.password=§swordfish§ --set a.b=c",
    "helm install db chart --set x=y,global.postgresql.auth.password=§swordfish§",
    "echo §swordfish§ | docker login -u me --password-stdin r.test",
    "echo -n '§swordfish§' | podman login --password-stdin r.test",
    "printf '%s' \"§swordfish§\" | docker login --password-stdin",
    "echo §swordfish§ | sudo -S apt-get update",
    "echo '§swordfish§' | sudo -k -S id",
    "echo me:§swordfish§ | chpasswd",
    "echo \"me:§swordfish§\" | sudo chpasswd",
    "echo §swordfish§ | gh auth login --with-token",
    "docker login --password-stdin r.test <<< \"§swordfish§\"",
    "sudo -S id <<< '§swordfish§'",
    "gh secret set DEPLOY --body §swordfish§",
    "gh secret set DEPLOY -b\"§swordfish§\" --repo a/b",
    "ConvertTo-SecureString \"§swordfish§\" -AsPlainText -Force",
    "$x = ConvertTo-SecureString -String '§Sw0rdfish!§' -AsPlainText -Force",
    // Databases.
    "CREATE USER 'app'@'%' IDENTIFIED BY '§swordfish§';",
    "create user app identified by '§swordfish§';",
    "ALTER USER 'app' IDENTIFIED WITH mysql_native_password BY '§swordfish§';",
    "ALTER ROLE app WITH LOGIN PASSWORD '§swordfish§';",
    "psql -c \"alter user app with password '§swordfish§'\"",
    "SET PASSWORD FOR 'app' = PASSWORD('§swordfish§');",
    "db.test:5432:shop:app:§swordfish§\n",
    "*:*:*:app:§swordfish§\n",
    "echo 'localhost:5432:*:app:§swordfish§' >> x",
    // Files and headers.
    "root:§$6$Gh8kLpQ2$Vx7.mN4bTq9ZrWc3EyUiOp0aSdFgHjKlZxCvBnM1QwErTyUiOpAsDfGhJkLzXcVbNm2QwErTyUiOpAsDfGhJ1§:19000:0:99999:7:::",
    "me:§$y$j9T$Gh8kLpQ2Vx7mN4bTq9ZrW.$c3EyUiOp0aSdFgHjKlZxCvBnM1QwErTyUiOpAsDfGh1§:19000:0:99999:7:::",
    "me:§$apr1$Gh8kLpQ2$Vx7mN4bTq9ZrWc3EyUiOp0§",
    "me:§$2y$05$Gh8kLpQ2Vx7mN4bTq9ZrWuc3EyUiOp0aSdFgHjKlZxCvBnM1QwErT§",
    "Set-Cookie: session=§AbcDEfghIJKlmnOPqrst§; Path=/; HttpOnly",
    "Set-Cookie: auth_token=§kdjfhgqpwoeirutyalsk§; Path=/",
];

#[test]
fn secrets_revealed_by_wording_or_a_command_are_redacted() {
    let redactor = redactor();
    let mut missed = Vec::new();
    for template in REVEALED {
        let secret = template.split('§').nth(1).unwrap();
        let text = template.replace('§', "");
        let json = serde_json::json!({ "stdout": text }).to_string();
        for redacted in [redactor.redact_text(&text), redactor.redact_json(&json)] {
            // No part of the secret stays, not even its end.
            if redacted.contains(&secret[secret.len() - 5..]) || !redacted.contains("[redacted:") {
                missed.push(format!("{text:?}: {redacted:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Secrets without a format: words, hexadecimal, base64 and lists of words. Each secret stands between `§`.
const FORMLESS: &[&str] = &[
    // A phrase of words.
    "passphrase: §correct horse battery staple§\n",
    "passphrase = \"§correct horse battery staple§\"",
    "PASSPHRASE='§correct horse battery staple§'",
    "{\"passphrase\": \"§correct horse battery staple§\"}",
    "{\"password\": \"§velvet otter marching cinnamon§\"}",
    "the passphrase is §correct horse battery staple§.",
    "my password is \"§velvet otter marching cinnamon§\", keep it",
    "gpg --batch --passphrase '§correct horse battery staple§' -d x.gpg",
    "ssh-keygen -t ed25519 -N \"§correct horse battery staple§\" -f id",
    "password: §velvet-otter-marching-cinnamon§\n",
    "password = \"§velvet-otter-marching-cinnamon§\"",
    "the password is §velvet otter marching cinnamon§\n",
    // A word after an option, and in other languages.
    "docker login -u me --password §swordfish§ r.test",
    "tool --password §swordfish§",
    "tool --password §swordfish§ --verbose",
    "tool --password=§swordfish§ --verbose",
    "tool --db-password §swordfish§ | tee log",
    "tool --passphrase §swordfish§",
    "keytool -genkey -storepass §swordfish§ -keypass §swordfish§",
    "Passwort: §swordfish§",
    "Passwort: §Sommer2024§",
    "Das Passwort ist §swordfish§.",
    "Das Passwort lautet §Sommer2024§",
    "Kennwort: §swordfish§",
    "mot de passe : §swordfish§",
    "Mot de passe: §Sommer2024§",
    "contraseña: §swordfish§",
    "la contraseña es §Verano2024§",
    "senha: §swordfish§",
    "wachtwoord: §swordfish§",
    "пароль: §swordfish§",
    "пароль: §Leto2024xyz§",
    "密码：§Xiatian2024§",
    "密码: §swordfish§",
    "パスワード: §Natsu2024xy§",
    // Java, Gradle and their files.
    "storePassword=§swordfish§\n",
    "storePassword=§swordfish§\nkeyPassword=§swordfish§\nkeyAlias=upload\n",
    "    storePassword \"§swordfish§\"",
    "-Djavax.net.ssl.keyStorePassword=§swordfish§",
    "javax.net.ssl.trustStorePassword=§swordfish§\n",
    "signing.keyPassword=§swordfish§\n",
    // Hexadecimal next to a keyword.
    "ENCRYPTION_KEY=§9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015§\n",
    "encryption key: §9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015§",
    "the master key is §9f86d081884c7d659a2feaa0c55ad015§",
    "The signing key is §9f86d081884c7d659a2feaa0c55ad015§.",
    "JWT_SECRET=§9f86d081884c7d659a2feaa0c55ad015§\n",
    "jwt secret: §9f86d081884c7d659a2feaa0c55ad015§",
    "private key: 0x§9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015§",
    "PRIVATE_KEY=0x§9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015§\n",
    "{\"privateKey\": \"0x§9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015§\"}",
    "session_secret: §9f86d081884c7d659a2feaa0c55ad015§",
    "SESSION_KEY = '§9f86d081884c7d659a2feaa0c55ad015§'",
    "the api key for staging is §9f86d081884c7d659a2feaa0c55ad015§",
    "webhook secret §9f86d081884c7d659a2feaa0c55ad015§",
    // Base64 next to a keyword.
    "ENCRYPTION_KEY=§q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§\n",
    "encryption key: §q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§",
    "the Fernet key is §q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§",
    "{\"secret\": \"§q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§\"}",
    "signing key §q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§",
    "APP_KEY=base64:§q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=§\n",
    // Words that restore a wallet.
    "§legal winner thank year wave sausage worth useful legal winner thank yellow§",
    "mnemonic: §legal winner thank year wave sausage worth useful legal winner thank yellow§",
    "MNEMONIC=\"§legal winner thank year wave sausage worth useful legal winner thank yellow§\"",
    "{\"mnemonic\": \"§legal winner thank year wave sausage worth useful legal winner thank yellow§\"}",
    "my seed phrase is §legal winner thank year wave sausage worth useful legal winner thank yellow§, keep it",
    "here is my wallet:\n§LEGAL WINNER THANK YEAR WAVE SAUSAGE WORTH USEFUL LEGAL WINNER THANK YELLOW§",
    "1. §legal 2. winner 3. thank 4. year 5. wave 6. sausage 7. worth 8. useful 9. legal 10. winner 11. thank 12. yellow§",
    "1. §legal\n2. winner\n3. thank\n4. year\n5. wave\n6. sausage\n7. worth\n8. useful\n9. legal\n10. winner\n11. thank\n12. yellow§",
    "wallet: legal, §winner, thank, year, wave, sausage, worth, useful, legal, winner, thank, yellow§",
    "§letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic bless§",
    // Secrets in base64.
    "§Z2hwX2E4S2Q5M2pmTHMwMm1RcHo3MVhjVjV1VDl3QnE0Um42WWU4Rw==§",
    "echo §Z2hwX2E4S2Q5M2pmTHMwMm1RcHo3MVhjVjV1VDl3QnE0Um42WWU4Rw==§ | base64 -d",
    "data:\n  value: §Z2hwX2E4S2Q5M2pmTHMwMm1RcHo3MVhjVjV1VDl3QnE0Um42WWU4Rw==§\n",
    "{\"x\": \"§Z2hwX2E4S2Q5M2pmTHMwMm1RcHo3MVhjVjV1VDl3QnE0Um42WWU4Rw§\"}",
    "config: §REJfUEFTU1dPUkQ9czNjcjN0U3dvcmRmaXNoCkhPU1Q9ZGIudGVzdAo=§",
];

#[test]
fn passwords_hex_keys_base64_keys_and_mnemonics_are_redacted() {
    let redactor = redactor();
    let mut missed = Vec::new();
    for template in FORMLESS {
        let text = template.replace('§', "");
        let json = serde_json::json!({ "stdout": text }).to_string();
        for redacted in [redactor.redact_text(&text), redactor.redact_json(&json)] {
            let parts = template.split('§').skip(1).step_by(2);
            let leaks = |secret: &str| redacted.contains(secret.get(secret.len() - 5..).unwrap_or(secret));
            if parts.into_iter().any(leaks) || !redacted.contains("[redacted:") {
                missed.push(format!("{text:?}: {redacted:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Texts with the same words that contain no secret.
const FORMLESS_TEXTS: &[&str] = &[
    "the passphrase is required for this key",
    "the passphrase is asked for once every session starts",
    "passphrase: enter the passphrase for your key",
    "{\"passphrase\": \"Enter your passphrase here please\"}",
    "password is checked before anything else happens",
    "the password is read from stdin when given",
    "Passwort: ",
    "Das Passwort ist falsch.",
    "Das Passwort ist erforderlich",
    "mot de passe : requis",
    "contraseña: obligatoria",
    "use --password instead of a prompt",
    "the --password option is deprecated",
    "  --password string   Password for the registry",
    "  --password <PASSWORD>  The password",
    "  --password PASSWORD",
    "--password-file FILE and --password are exclusive",
    "--passphrase reads from a file",
    "commit 9f86d081884c7d659a2feaa0c55ad0159f86d081",
    "sha256 9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
    "sha256:9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
    "md5: 9f86d081884c7d659a2feaa0c55ad015",
    "9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015  file.tar.gz",
    "the key of the cache is 9f86d081884c7d659a2feaa0c55ad015",
    "checksum of the secret service 9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
    "token bucket at commit 9f86d081884c7d659a2feaa0c55ad0159f86d081",
    "PUBLIC_KEY=0x9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
    "transaction 0x9f86d081884c7d659a2feaa0c55ad0159f86d081884c7d659a2feaa0c55ad015",
    "sha256-q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "the wallet restores from a seed phrase of twelve words that the user wrote down",
    "mnemonic: a word that helps to remember things",
    "apt install build essential curl file wget xdo tool chain dev pack test run",
    "SGVsbG8gd29ybGQsIHRoaXMgaXMgYSBwbGFpbiBzZW50ZW5jZSBpbiBiYXNlNjQu",
    "data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbImEudHMiLCJiLnRzIl0sIm5hbWVzIjpbXX0=",
    "ssh-keygen -t ed25519 -N '' -f id",
];

#[test]
fn harmless_texts_about_passwords_hashes_and_mnemonics_are_kept() {
    let redactor = redactor();
    let lost = FORMLESS_TEXTS
        .iter()
        .map(|text| redactor.redact_text(text))
        .filter(|text| text.contains("[redacted:"));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_command_that_prints_secrets_is_kept_and_its_output_redacted() {
    let redactor = redactor();
    let printed = serde_json::json!({"stdout": "FOO=plainword\nHOME=/root", "stderr": ""}).to_string();
    for command in ["env", "gh auth token", "kubectl get secret db -o yaml | head", "bash -lc 'printenv FOO'"]
    {
        for result in [ToolResult::Done(printed.clone()), ToolResult::Failed("FOO=plainword".to_owned())] {
            let input = serde_json::json!({ "command": command }).to_string();
            let redacted = redactor.redact_event(tool(&input, result));
            let HookEventKind::Tool(call) = redacted.what else { panic!("{redacted:?}") };
            assert_eq!(call.input, input);
            assert!(!format!("{:?}", call.result).contains("plainword"), "{command}: {:?}", call.result);
        }
    }
    let input = serde_json::json!({ "command": "env FOO=1 make" }).to_string();
    let kept = redactor.redact_event(tool(&input, ToolResult::Done(printed)));
    assert!(format!("{kept:?}").contains("plainword"));
}

/// Texts that look like the ones above and contain no secret.
const WITHOUT_SECRETS: &[&str] = &[
    "login(user=me, password=settings.password)",
    "login(password=self.password1)",
    "connect(user, password=password, host=host)",
    "    password=passwd,",
    "{\"password\": \"string\"}",
    "{\"password\": \"Passwort\"}",
    "{\"password\": \"Enter your password\"}",
    "{\"password\": \"********\"}",
    "{\"password\": \"${DB_PASSWORD}\"}",
    "{'password': 'db_password'}",
    "{\"secret\": \"varchar\"}",
    "<password>${db.password}</password>",
    "the tests pass: 12 of 13",
    "pass: first, pass=2",
    "pass = next_pass2(pass1)",
    "all checks pass in 12.5s",
    "password argon2id, password field2 and password base64-encoded",
    "the password is too short, so use a longer one",
    "credentials: include",
    "credentials: same-origin/none",
    "getUserNameFromToken parseHTTPRequestForURLAndXML",
    "token = parseHTTPRequestForURLAndXMLDocument",
    "GIT_HASH=9f86d081884c7d659a2feaa0c55ad0159f86d081",
    "secret: |\n  see the manual\n",
    "a&b&c=d",
    "mysql -u root -p shop",
    "echo the password is read | grep password",
    "echo $PASS | docker login --password-stdin",
    "echo done | sudo tee -a /etc/motd",
    "echo hello | tee x; docker login --password-stdin < pass.txt",
    "use ConvertTo-SecureString to make one",
    "vault kv put secret/app @data.json",
    "vault kv put secret/app db=@data.txt",
    "kubectl get secret db -o yaml",
    "htpasswd -c .users me",
    "curl -sS https://h.test/u:v",
    "ports: 127.0.0.1:5432:5432",
    "identified by a user name and a host",
    "the columns identified by \"columns\", all but one",
    "Set-Cookie: theme=darkmodeeverywhere; sessiontype=x",
    "task-9f86d081884c7d659a2feaa0c55ad015 and disk-9f86d081884c7d659a2feaa0c55ad0159f86d081",
    "price is $6$ or $5$ and $1$2$3",
    "gh secret set DEPLOY < file.txt",
];

#[test]
fn code_and_texts_that_only_resemble_secrets_are_kept() {
    let redactor = redactor();
    let lost = WITHOUT_SECRETS
        .iter()
        .map(|text| redactor.redact_text(text))
        .filter(|text| text.contains("[redacted:"));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn secrets_revealed_by_name_or_position_are_redacted_in_prose_code_and_logs() {
    let redactor = redactor();
    let mut missed = Vec::new();
    for (seed, (template, texts)) in PLACED.iter().enumerate() {
        let secret = planted(template, seed as u64);
        for text in *texts {
            let text = text.replace('§', &secret);
            let plain = redactor.redact_text(&text).into_owned();
            let json = serde_json::json!({ "stdout": text }).to_string();
            let json = redactor.redact_json(&json).into_owned();
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            for redacted in [plain.as_str(), value["stdout"].as_str().unwrap()] {
                if redacted.contains(&secret) || !redacted.contains("[redacted:") {
                    missed.push(format!("{text:?}: {redacted:?}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn the_rest_of_a_secret_beside_a_truncation_mark_is_redacted() {
    let redactor = redactor();
    let token = planted("ghp_{a36}", 5);
    let line = planted("{a64}", 6);
    let lines = |count: usize| vec![line.as_str(); count].join("\n");
    let mark = " [... 300000 of 500000 bytes elided by recall ...] ";
    for (text, secret) in [
        (format!("x {}{mark}y", &token[..30]), &token[..30]),
        (format!("x{mark}{} y", &token[10..]), &token[10..]),
        (format!("x{mark}{}\n-----END RSA PRIVATE KEY-----\ny", lines(15)), &*line),
        (format!("-----BEGIN RSA PRIVATE KEY-----\n{}{mark}y", lines(15)), &line),
        (format!("x{mark}{}\n{}\ny", &line[20..], lines(14)), &line),
        (format!("x\n{}\n{}{mark}y", lines(14), &line[20..]), &line),
        (
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{}{mark}{}\n-----END RSA PRIVATE KEY-----",
                lines(3),
                lines(3)
            ),
            &line,
        ),
        (format!("DB_PASSWORD=sword{mark}y"), "sword"),
    ] {
        let redacted = redactor.redact_text(&text);
        assert!(!redacted.contains(secret), "{redacted}");
        let json = serde_json::json!({ "stdout": text }).to_string();
        let redacted = redactor.redact_json(&json);
        assert!(!redacted.contains(secret), "{redacted}");
    }
    let harmless = format!("the cart rounds{mark}once, after summing");
    assert_eq!(redactor.redact_text(&harmless), harmless);
}

#[test]
fn ids_and_folders_are_redacted_by_format_alone_and_stay_different() {
    let redactor = redactor();
    let (one, other) = (planted("ghp_{a36}", 1), planted("ghp_{a36}", 2));
    let mark = |text: &str| redactor.redact_id(text).into_owned();
    assert!(mark(&one).starts_with("[redacted:github-token-") && !mark(&one).contains(&one));
    assert_eq!(mark(&one), mark(&one));
    assert_ne!(mark(&one), mark(&other));
    assert_eq!(mark(&mark(&one)), mark(&one));
    assert_eq!(mark(&format!("/home/a/{one}/b")), format!("/home/a/{}/b", mark(&one)));
    for id in [
        "550e8400-e29b-41d4-a716-446655440000",
        "toolu_01A09q90qw90lq917835lq9x",
        "password=hunter2hunter2",
        "/home/a/my-secret=a8Kd93jfLs02mQpz71XcV5uT",
        "mcp__github__create_token",
        "feature/AB-123-token-refresh",
    ] {
        assert!(matches!(redactor.redact_id(id), Cow::Borrowed(_)), "{id}: {}", redactor.redact_id(id));
    }
    let mut call = tool("{}", ToolResult::Done("{}".to_owned()));
    if let HookEventKind::Tool(call) = &mut call.what {
        (call.name, call.use_id, call.launched) = (one.clone(), Some(one.as_str().into()), Some(one.clone()));
    }
    call.session = SessionId(one.clone());
    call.prompt = Some(PromptId(one.clone()));
    (call.cwd, call.transcript_path) = (Some(format!("/{one}")), Some(format!("/{one}.jsonl")));
    call.subagent = Some(Subagent { id: one.clone(), kind: Some(one.clone()) });
    let redacted = redactor.redact_event(call);
    assert_eq!(redacted.session.as_str(), mark(&one));
    assert!(!format!("{redacted:?}").contains(&one), "{redacted:?}");
}

#[test]
fn secrets_revealed_by_name_or_position_are_marked_with_their_kind() {
    let redactor = redactor();
    for (text, expected) in [
        ("DB_PASSWORD=swordfish", "DB_PASSWORD=[redacted:password]"),
        ("password = \"hunter2\"", "password = \"[redacted:password]\""),
        ("\"client_secret\": \"a8Kd93jfLs02mQpz71Xc\"", "\"client_secret\": \"[redacted:secret]\""),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY2Zq9LkE7s3",
            "aws_secret_access_key = [redacted:secret]",
        ),
        (
            "//registry.npmjs.org/:_authToken=9f86d081884c7d659a2feaa0c55ad015",
            "//registry.npmjs.org/:_authToken=[redacted:token]",
        ),
        ("postgres://app:s3cr3t@db/shop", "postgres://app:[redacted:url-password]@db/shop"),
        (
            "curl -H 'Authorization: Basic dXNlcjpodW50ZXIy'",
            "curl -H 'Authorization: Basic [redacted:authorization]'",
        ),
        ("Server=db;Password=hunter2;", "Server=db;Password=[redacted:password];"),
    ] {
        assert_eq!(redactor.redact_text(text), expected);
        assert_eq!(redactor.redact_text(expected), expected);
    }
}

#[test]
fn source_code_lock_files_and_identifiers_are_not_redacted() {
    let redactor = redactor();
    for line in [
        "let token = next_token();",
        "    password: String,",
        "KEY=$FOO make",
        "API_KEY=${API_KEY:-}",
        "checksum = \"c982642fa9e8606056828ee9a8505737230110bb1099153c79efe865c59d12ba\"",
        "\"integrity\": \"sha512-Xg7mXiVyFbUH9pDM5YJGCJPlRhyJh7XVGdKQvGp5h0JzHrxk4t2vKzv8cFIl5xOJ6w0Lz2Zr3kmVh0QIaw1JRA==\"",
        "commit ac1749f0d1c9d5a6d3d7ef4a2a57c3d8b1fd4e2a",
        "id: 550e8400-e29b-41d4-a716-446655440000",
        "src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==\"",
        "if self.peek() == Some(Token::Ident) { return self.token; }",
        "max_tokens: 128000, token_count = 12345678901234567890",
        "pub fn api_key(&self) -> Option<&SecretString> {",
        "const TOKEN_HEADER: &str = \"x-csrf-token\";",
        "const auth = useAuth(); const { accessToken, refreshToken } = auth;",
        "secret = os.environ[\"SECRET_KEY\"]",
        "password: process.env.DB_PASSWORD || 'postgres'",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "see https://docs.test/guide#token=basics and mailto:a@b.test",
        "postgres://user:password@localhost:5432/db",
        "impl Tokenizer for WhitespaceTokenizer { type Token = Utf8Token2; }",
        "PublicKeyToken=b77a5c561934e089",
        "label: { password: 'Password', confirm: 'Repeat your password 2x' }",
        "task-force disk-usage risk-free ask-me-anything-about-it-please-now",
        "-----BEGIN PRIVATE KEY----- is what the file begins with",
        "the tokens ghp_, sk-ant- and AKIA begin keys; eyJ begins a JWT",
        "passwd:x:0:0:root:/root:/bin/bash",
        "PWD=/home/user/project OLDPWD=/home/user",
        "secret_key_base: <%= ENV[\"SECRET_KEY_BASE\"] %>",
        "\"access_key_id\": \"\", \"secret_key\": null",
    ] {
        assert!(
            matches!(redactor.redact_text(line), Cow::Borrowed(_)),
            "{line}: {}",
            redactor.redact_text(line)
        );
    }
}

#[test]
fn fields_with_secret_names_are_redacted_in_any_escaping() {
    let redactor = redactor();
    let deep =
        serde_json::json!({ "out": serde_json::json!({ "password": "hunter2" }).to_string() }).to_string();
    for (json, expected) in [
        (r#"{"password": "swordfish"}"#, r#"{"password": "[redacted:password]"}"#),
        (r#"{"api_key":"abcd-efgh", "n": 1}"#, r#"{"api_key":"[redacted:secret]", "n": 1}"#),
        (r#"{"\u0061pi_key":"abcd-efgh"}"#, r#"{"\u0061pi_key":"[redacted:secret]"}"#),
        (r#"{"token": "next", "password": 7}"#, r#"{"token": "next", "password": 7}"#),
        (r#"["A\u004bIAQWERTYUIOPASDFGH"]"#, r#"["[redacted:aws-access-key]"]"#),
        (r#"{"u":"https:\/\/a:s3cr3t@h"}"#, r#"{"u":"https:\/\/a:[redacted:url-password]@h"}"#),
        (&deep, r#"{"out":"{\"password\":\"[redacted:password]\"}"}"#),
    ] {
        assert_eq!(redactor.redact_json(json), expected);
    }
}

#[test]
fn a_multiline_key_in_a_json_string_is_redacted_as_a_whole() {
    let key = planted("-----BEGIN PRIVATE KEY-----\n{a64}\n{a64}\n-----END PRIVATE KEY-----\n", 7);
    let json = serde_json::json!({ "type": "service_account", "private_key": key, "x": "y" }).to_string();
    let expected = r#"{"type":"service_account","private_key":"[redacted:private-key]\n","x":"y"}"#;
    assert_eq!(redactor().redact_json(&json), expected);
}

#[test]
fn payloads_that_are_not_json_are_redacted_too() {
    let (redactor, secret) = (redactor(), planted("ghp_{a36}", 3));
    let cut = format!(r#"{{"tool_response":"a\n{secret}"#);
    assert_eq!(
        redactor.redact_bytes(cut.as_bytes()),
        r#"{"tool_response":"a\n[redacted:github-token]"#.as_bytes()
    );
    let binary = [b"\xff ", secret.as_bytes(), b"\xfe"].concat();
    assert_eq!(redactor.redact_bytes(&binary), "\u{FFFD} [redacted:github-token]\u{FFFD}".as_bytes());
    let clean = b"\xff\xfe no secret";
    assert!(matches!(redactor.redact_bytes(clean), Cow::Borrowed(same) if same == clean));
}

#[test]
fn redaction_policy_errors_name_the_key_and_the_pattern() {
    for (extra, allow, expected) in [
        ("(", "", "redaction.extra: `(` is not a valid pattern: unclosed group"),
        ("", "[", "redaction.allow: `[` is not a valid pattern: unclosed character class"),
        ("a*", "", "redaction.extra: `a*` matches everything"),
        ("(?:\\w{500}){500}", "", "redaction.extra"),
    ] {
        let list =
            |pattern: &str| Some(pattern.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
        let policy = RedactionPolicy { extra: list(extra), allow: list(allow), ..RedactionPolicy::default() };
        let message = Redactor::new(&policy).err().unwrap().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn the_policy_adds_patterns_allows_values_and_turns_redaction_off() {
    let policy = RedactionPolicy {
        mode: RedactionMode::On,
        extra: vec!["ACME-[0-9]{4}".to_owned()],
        allow: vec!["^hunter2$".to_owned()],
    };
    let redactor = Redactor::new(&policy).unwrap();
    assert_eq!(redactor.redact_json(r#"["ACME-1234"]"#), r#"["[redacted:extra]"]"#);
    assert_eq!(redactor.redact_text("password = \"hunter2\""), "password = \"hunter2\"");
    assert_eq!(redactor.redact_json(r#"{"password":"hunter2"}"#), r#"{"password":"hunter2"}"#);
    let off = Redactor::new(&RedactionPolicy { mode: RedactionMode::Off, ..policy }).unwrap();
    assert_eq!(off.redact_text("ACME-1234 DB_PASSWORD=swordfish"), "ACME-1234 DB_PASSWORD=swordfish");
    let read = tool(r#"{"file_path":".env"}"#, ToolResult::Done("\"A=b\"".to_owned()));
    assert_eq!(off.redact_event(read.clone()), read);
}

fn event(what: HookEventKind) -> HookEvent {
    HookEvent {
        session: SessionId("s".to_owned()),
        prompt: Some(PromptId("p".to_owned())),
        cwd: Some("/p".to_owned()),
        transcript_path: None,
        title: None,
        subagent: Some(Subagent { id: "a".to_owned(), kind: None }),
        origin: None,
        host: None,
        what,
    }
}

fn tool(input: &str, result: ToolResult) -> HookEvent {
    let (name, input) = ("Any".to_owned(), input.to_owned());
    let (use_id, duration_ms) = (Some("t".into()), None);
    let (plan, launched, rewrote) = (None, None, None);
    event(HookEventKind::Tool(ToolCall { name, use_id, input, result, duration_ms, plan, launched, rewrote }))
}

#[test]
fn every_text_of_an_event_is_redacted() {
    let secret = planted("ghp_{a36}", 11);
    let text = || format!("a {secret} b");
    let json = || format!(r#"{{"a":"{secret}"}}"#);
    for what in [
        HookEventKind::Prompt {
            text: PromptText::Text(text()),
            source: BatchSource::User,
            start: StartContext::Shown,
        },
        HookEventKind::Tool(ToolCall {
            name: "Bash".to_owned(),
            use_id: None,
            input: json(),
            result: ToolResult::Done(json()),
            duration_ms: None,
            plan: Some(PlanChange::File { path: "p".to_owned(), text: text() }),
            launched: None,
            rewrote: Some(text()),
        }),
        HookEventKind::ToolStart(ToolStart {
            name: "Bash".to_owned(),
            use_id: None,
            input: json(),
            file: Some(text()),
            task: Some(SubagentTask { kind: "explore".to_owned(), text: text() }),
            refused_by: None,
        }),
        HookEventKind::SubagentStop { message: Some(text()) },
        HookEventKind::PostCompact { trigger: "auto".to_owned(), summary: Some(text()) },
        HookEventKind::StopFailure { error: "unknown".to_owned(), detail: json() },
        HookEventKind::Tool(ToolCall {
            name: "Bash".to_owned(),
            use_id: None,
            input: json(),
            result: ToolResult::Failed(text()),
            duration_ms: None,
            plan: Some(PlanChange::Tasks(TaskChange::Add { id: "1".to_owned(), subject: text() })),
            launched: None,
            rewrote: None,
        }),
        HookEventKind::PreCompact { trigger: text() },
        HookEventKind::Stop { message: Some(text()) },
        HookEventKind::SessionEnd { reason: text() },
        HookEventKind::Other { name: "Notification".to_owned(), detail: json() },
    ] {
        let redacted = format!("{:?}", redactor().redact_event(event(what)));
        assert!(!redacted.contains(&secret) && redacted.contains("[redacted:github-token]"), "{redacted}");
    }
    for what in [
        HookEventKind::SessionStart { source: StartSource::Resume, audience: Audience::Person },
        HookEventKind::Prompt {
            text: PromptText::WhollyPrivate,
            source: BatchSource::Private,
            start: StartContext::Shown,
        },
        HookEventKind::Stop { message: None },
    ] {
        assert_eq!(redactor().redact_event(event(what.clone())), event(what));
    }
}

#[test]
fn only_the_name_of_a_secret_file_is_kept() {
    let done = |json: &str| ToolResult::Done(json.to_owned());
    for (before, after) in [
        (
            tool(r#"{"file_path":"/p/.env"}"#, done(r#"{"type":"text","file":{"filePath":"/p/.env","content":"A=b"}}"#)),
            tool(
                r#"{"file_path":"/p/.env"}"#,
                done(r#"{"type":"text","file":{"filePath":"/p/.env","content":"[redacted:file-content]"}}"#),
            ),
        ),
        (
            tool(r#"{"path":"id_rsa","text":"x"}"#, ToolResult::Failed("no x".to_owned())),
            tool(
                r#"{"path":"id_rsa","text":"[redacted:file-content]"}"#,
                ToolResult::Failed("[redacted:file-content]".to_owned()),
            ),
        ),
        (
            tool(r#"{"command":"cat .env"}"#, done(r#"{"stdout":"A=b"}"#)),
            tool(r#"{"command":"cat .env"}"#, done(r#"{"stdout":"[redacted:file-content]"}"#)),
        ),
        (
            tool(r#"{"command":"echo A=b > .env","description":"b"}"#, done(r#"{"stdout":"b","interrupted":false}"#)),
            tool(
                r#"{"command":"echo [redacted:file-content] .env","description":"[redacted:file-content]"}"#,
                done(r#"{"stdout":"[redacted:file-content]","interrupted":false}"#),
            ),
        ),
        (
            tool(r#"{"pattern":"b"}"#, done(r#"{"content":".env:1:A=b\na.rs:2:b"}"#)),
            tool(r#"{"pattern":"b"}"#, done(r#"{"content":".env:1:[redacted:file-content]\na.rs:2:b"}"#)),
        ),
        (
            tool(
                r#"{"command":"git diff"}"#,
                ToolResult::Failed("diff --git a/.env b/.env\n+A=b\ndiff --git a/b b/b".to_owned()),
            ),
            tool(
                r#"{"command":"git diff"}"#,
                ToolResult::Failed(
                    "diff --git a/.env b/.env\n[redacted:file-content]\ndiff --git a/b b/b".to_owned(),
                ),
            ),
        ),
        (
            tool(r#"{"input":"*** Begin Patch\n*** Update File: .env\n+A=b\n*** End Patch"}"#, done(r#""Done""#)),
            tool(
                r#"{"input":"*** Begin Patch\n*** Update File: .env\n[redacted:file-content]\n*** End Patch"}"#,
                done(r#""Done""#),
            ),
        ),
        (
            tool(r#"{"target":".env","text":"A=b"}"#, done(r#""A=b""#)),
            tool(
                r#"{"target":".env","text":"[redacted:file-content]"}"#,
                done(r#""[redacted:file-content]""#),
            ),
        ),
        (
            tool(r#"{"code":"print(open('.env').read())"}"#, done(r#""A=b""#)),
            tool(
                r#"{"code":".env [redacted:file-content]"}"#,
                done(r#""[redacted:file-content]""#),
            ),
        ),
        (
            tool(r#"{"pattern":"b","glob":".env"}"#, done(r#"{"content":".env:A=b"}"#)),
            tool(
                r#"{"pattern":"[redacted:file-content]","glob":".env"}"#,
                done(r#"{"content":"[redacted:file-content]"}"#),
            ),
        ),
        (
            event(HookEventKind::Other {
                name: "PreToolUse".to_owned(),
                detail: r#"{"session_id":"s","tool_input":{"file_path":"a.pem","content":"A"}}"#.to_owned(),
            }),
            event(HookEventKind::Other {
                name: "PreToolUse".to_owned(),
                detail: r#"{"session_id":"s","tool_input":{"file_path":"a.pem","content":"[redacted:file-content]"}}"#
                    .to_owned(),
            }),
        ),
    ] {
        assert_eq!(redactor().redact_event(before), after);
        assert_eq!(redactor().redact_event(after.clone()), after);
    }
}

/// A careless scanner would read these texts again and again. In quadratic time this test would not finish.
#[test]
fn redaction_of_hostile_texts_finishes() {
    const SIZE: usize = 128 << 10;
    let redactor = redactor();
    for unit in [
        "eyJ",
        "-eyJ",
        "eyJaaaaaaaaa.",
        "token=",
        "token:",
        "password:\"",
        "PASSWORD=a1",
        "://",
        "a://b:c@",
        "/fo1_",
        "-----BEGIN PRIVATE KEY-----\n",
        "Private-Lines: 1\nAAAAAAAAAAAAAAAA",
        "sk-ant-",
        "bearer a1",
        "_pass:",
        "_key=",
        "curl ",
        "curl -u a:b1 ",
        "mysql -p",
        "cookie: a=b;",
        "the password is ",
        "password a is ",
        "AKIAQWERTYUIOPASDFGH",
        "a bytes elided by recall ...] ",
        " [... 1 of 2 bytes elided by recall ...] A1b2",
        "-----END PRIVATE KEY-----",
        "AAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----",
        "?key=",
        "x=\"a8Kd93jfLs02mQpz71XcV5uT",
        "_eyJa",
        "\\",
        "key-a",
        "=glc_",
        "authorization: bearer ",
        "secret\": \"",
        "echo a1 | sudo -S ",
        "sudo ",
        "--password-stdin<<<",
        "vault kv put a=b1 ",
        "curl -u a:\"",
        "h:*:a:",
        "xAKCp",
        "xsl.a8Kd93jfLs02mQpz71Xc",
        "$y$a$",
        "identified by '",
    ] {
        let text = unit.repeat(SIZE / unit.len());
        assert!(redactor.redact_text(&text).len() <= text.len() * 8, "{unit}");
        let json = format!("{{\"{text}");
        assert!(redactor.redact_bytes(json.as_bytes()).len() <= json.len() * 8, "{unit}");
    }
}

/// Generates fragments of secrets, near misses and marks.
fn fragments() -> impl Strategy<Value = String> {
    let planted_ones = (0..PLANTED.len(), any::<u64>()).prop_map(|(at, seed)| planted(PLANTED[at].1, seed));
    let others = proptest::sample::select(vec![
        "password",
        "token",
        "API_KEY",
        "=",
        ": ",
        "\"",
        "'",
        "\\\"",
        "\n",
        " ",
        "hunter2",
        "https://",
        "a:b9@",
        "[redacted:jwt]",
        "Bearer ",
        "Authorization: ",
        "é",
        "\\",
        "-",
        "_",
        ".",
        "a8Kd93jfLs02mQpz71Xc",
        "ghp_",
        "AKIA",
        "-----BEGIN ",
        "<",
        ">",
    ]);
    let piece = prop_oneof![1 => planted_ones, 4 => others.prop_map(str::to_owned), 1 => ".{0,4}"];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(Into::into),
        fragments().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop_oneof![Just("password".to_owned()), Just("path".to_owned()), "[a-z]{1,6}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((key, inner), 0..4)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns the value with every text replaced by an empty one.
fn shape(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(items) => Value::Array(items.iter().map(shape).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), shape(value))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn redacting_twice_changes_nothing_more(text in fragments()) {
        let redactor = redactor();
        let once = redactor.redact_text(&text).into_owned();
        prop_assert_eq!(redactor.redact_text(&once), once.as_str());
    }

    #[test]
    fn redacted_json_keeps_its_shape(value in json()) {
        let redactor = redactor();
        let json = value.to_string();
        let redacted = redactor.redact_json(&json);
        let read: serde_json::Value = serde_json::from_str(&redacted).unwrap();
        prop_assert_eq!(shape(&read), shape(&value));
        prop_assert_eq!(redactor.redact_json(&redacted), redacted.as_ref());
        let bare = redactor.redact_payload(&json);
        let read: serde_json::Value = serde_json::from_str(&bare).unwrap();
        prop_assert_eq!(shape(&read), shape(&value));
    }

    #[test]
    fn prose_and_numbers_are_not_redacted(text in "[a-zA-Z ,.!?]{0,200}", number in any::<u64>()) {
        let text = format!("{text} {number}");
        prop_assert_eq!(redactor().redact_text(&text), text.as_str());
    }

    #[test]
    fn redacting_arbitrary_bytes_and_texts_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in fragments()) {
        let redactor = redactor();
        redactor.redact_bytes(&bytes);
        redactor.redact_bytes(text.as_bytes());
        redactor.redact_json(&text);
        redactor.redact_event(tool(&text, ToolResult::Failed(text.clone())));
    }
}

/// Secrets without a format: they contain no mark of a provider.
const SHAPELESS: &[(&str, &str)] = &[
    ("16 hex", "{h16}"),
    ("32 hex", "{h32}"),
    ("40 hex", "{h40}"),
    ("64 hex", "{h64}"),
    ("UUID", "{h8}-{h4}-4{h3}-a{h3}-{h12}"),
    ("20 letters and digits", "{a20}"),
    ("32 letters and digits", "{a32}"),
    ("43 of base64url", "{a20}_{a11}-{a10}"),
    ("44 of base64", "{a20}+{a11}/{a10}="),
    ("88 of base64", "{a40}+{a30}/{a14}=="),
    ("26 of base32", "{u26}"),
    ("a word and digits", "Sommer{d4}!x"),
    ("four words", "correct horse battery staple"),
    ("four words with dashes", "correct-horse-battery-staple-{d2}"),
    (
        "twelve words of a wallet",
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
    ),
];

/// Places with a word that announces a secret.
const ANNOUNCED_PLACES: &[&str] = &[
    "the api key is §",
    "API key: §",
    "Use the token § for the calls",
    "use § as the secret",
    "§ is the password",
    "export API_TOKEN=§",
    "SECRET_KEY = '§'",
    "{\"apiKey\": \"§\"}",
    "{\"client_secret\":\"§\",\"a\":1}",
    "client_secret: §",
    "  secret:\n    value: §\n",
    "tool --token § run",
    "tool --api-key=§ run",
    "curl -H 'X-Api-Key: §' https://h.test",
    "curl -H \"Authorization: Bearer §\" https://h.test",
    "https://h.test/v1?api_key=§&page=1",
    "https://user:§@h.test/",
    "const token = \"§\";",
    "api_token=\"§\"  # rotate",
    "| api key | § |",
    "<secret>§</secret>",
    "<add key=\"ApiSecret\" value=\"§\"/>",
    "password\t§",
    "signing secret (§)",
];

/// Places without such a word.
const BARE_PLACES: &[&str] =
    &["§", "found §, and more", "please use § for the calls", "{\"a\": \"§\"}", "X='§'\n"];

/// Returns how many secrets were tried, and the kind and place of each one that stays.
/// `cargo test -p recall-domain --lib -- --ignored placements --nocapture`
fn placements(places: &[&str]) -> (usize, Vec<String>) {
    let redactor = redactor();
    let mut leaks = Vec::new();
    for (seed, (kind, template)) in SHAPELESS.iter().enumerate() {
        let secret = planted(template, 100 + seed as u64);
        for place in places {
            let text = place.replace('§', &secret);
            if redactor.redact_text(&text).contains(secret.get(..8).unwrap_or(&secret)) {
                leaks.push(format!("{kind} in {place:?}"));
            }
        }
    }
    (places.len() * SHAPELESS.len(), leaks)
}

#[test]
#[ignore = "measures, and proves nothing"]
fn missed_placements_of_secrets_without_a_format_are_printed() {
    for (name, places) in [("with a word", ANNOUNCED_PLACES), ("without a word", BARE_PLACES)] {
        let (tried, leaks) = placements(places);
        println!("{name}: {} of {tried} stay\n  {}", leaks.len(), leaks.join("\n  "));
    }
}
