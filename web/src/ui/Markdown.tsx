/** What the agent wrote, as it meant it. Pictures are not loaded and HTML is not read: the text comes from a model. */
import ReactMarkdown from "react-markdown";

export default function Markdown({ text }: { text: string }) {
  return (
    <ReactMarkdown
      skipHtml
      disallowedElements={["img"]}
      components={{
        a: ({ href, children }) => (
          <a href={href} target="_blank" rel="noreferrer noopener">
            {children}
          </a>
        ),
      }}
    >
      {text}
    </ReactMarkdown>
  );
}
