"""What a pan-private run refuses once its loss is used up. Neither refusal depends on who came."""


class NoReleaseLeft(ValueError):  # noqa: N818 - named for what happened
    """All estimates that the claim has paid for were made."""

    def __init__(self, releases: int) -> None:
        super().__init__(f"releases must be at most the {releases} that the claim pays for, got one more")


class NoIntrusionLeft(ValueError):  # noqa: N818 - named for what happened
    """All announced intrusions that the claim has reserved loss for were made."""

    def __init__(self, intrusions: int) -> None:
        super().__init__(f"intrusions must be at most the {intrusions} that the claim reserves, got one more")
