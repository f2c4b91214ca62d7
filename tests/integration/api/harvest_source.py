"""A small source for tests of the harvest's API. Its address is public and never called: nobody asks it for numbers."""

NAME = "shelf"
ADDRESS = "https://192.88.98.1/v1"  # public by its number, so that no name is looked up
DOCUMENT = f"""
source: {NAME}
name: A shelf
credentials:
  shelf: {{type: API_KEY, secret: {{store: shelf}}}}
endpoints:
  works:
    default: true
    http:
      baseUrl: {ADDRESS}
      pathTemplate: /works
      queryTemplate:
        since: '${{formatDateTime(window.from, "%Y-%m-%dT%H:%M:%SZ")}}'
        until: '${{formatDateTime(window.to, "%Y-%m-%dT%H:%M:%SZ")}}'
        q: "${{param.q}}"
        token: "${{page.token}}"
    auth: {{type: API_KEY, name: X-Key, credentialRef: shelf}}
    pagination: {{type: TOKEN, initialToken: "*", nextTokenPath: $.next, pageSize: 10, shortPageEnds: true}}
    window: {{supportsUpdatedSince: true, watermarkKey: updated_at, maxWindow: 6h, initial: 1d}}
    rateLimit: {{qps: 2, burst: 2}}
    response: {{itemsPath: $.items, idPath: $.id, updatedAtPath: $.updated}}
schedules:
  - {{endpoint: works, operation: HARVEST, every: 1h}}
"""
