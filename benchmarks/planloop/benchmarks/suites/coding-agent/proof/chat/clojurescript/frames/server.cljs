(ns server
  (:require ["fs/promises" :refer [readFile]]
            ["http" :refer [createServer]]
            [frames]
            [promesa.core :as p]
            [room]))

(defn page [request response]
  (if (= (.-url request) "/")
    (p/let [html (readFile "public/index.html")]
      (.setHeader response "Content-Type" "text/html; charset=utf-8")
      (.end response html))
    (-> response (.writeHead 404) (.end))))

(defn upgrade [request stream]
  (let [key (aget (.-headers request) "sec-websocket-key")
        client #(when (.-writable stream) (.write stream (frames/text-frame %)))]
    (if (and key (= (.-url request) "/chat"))
      (do
        (.write stream (str "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Accept: " (frames/accept key) "\r\n\r\n"))
        (frames/listen! stream #(room/say client %))
        (.on stream "close" #(room/leave client))
        (.on stream "error" #(.destroy stream))
        (room/join client))
      (.end stream "HTTP/1.1 404 Not Found\r\n\r\n"))))

(doto (createServer page)
  (.on "upgrade" upgrade)
  (.listen (js/Number js/process.env.PORT)))
